"""Proposed actions: which calls need a person, and what a decision about them is bound to."""
