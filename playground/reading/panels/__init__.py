"""What a step's detail shows, tab by tab: one module and one template each."""
