"""Single turns of a model for other engines, which run the loop and the tools themselves."""
