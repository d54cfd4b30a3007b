"""What the pages show of recorded runs, as plain values built from rows."""
