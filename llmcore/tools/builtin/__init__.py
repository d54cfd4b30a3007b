"""The tools that come with the runtime; importing a module of this package registers its tools."""
