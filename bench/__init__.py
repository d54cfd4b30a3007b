"""Measurements: ratios within one run, medians over repeats. Nothing here is a test."""
