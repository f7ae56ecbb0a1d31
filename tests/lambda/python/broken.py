"""A function that cannot be initialised."""

raise RuntimeError("no table for this function")
