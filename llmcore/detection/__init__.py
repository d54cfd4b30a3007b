"""Finds what could answer runs: model servers on this machine, and services whose key is in the environment."""
