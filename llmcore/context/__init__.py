"""What fits into a model's window."""
