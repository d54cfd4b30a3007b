"""The demo site: a small shop with tools, and a scripted model that works with them."""
