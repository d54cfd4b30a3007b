"""Tools that look into the Django site they run in, and change nothing."""
