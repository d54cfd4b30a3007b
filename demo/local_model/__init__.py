"""A small real model on this machine, for those who have no other: its server, and the rows that make it usable."""
