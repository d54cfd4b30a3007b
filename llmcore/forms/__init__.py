"""Forms of the stored configuration, one module per area of the admin."""
