"""The admin pages that start, show and compare runs."""
