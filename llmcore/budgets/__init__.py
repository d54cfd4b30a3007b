"""Budgets: what may be used in a day, a month or one run."""
