"""Two runs or a few beside each other: what was set, what it took, what was sent, what came back."""
