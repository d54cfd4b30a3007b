"""Permits: how many provider calls may be in flight, and who is next."""
