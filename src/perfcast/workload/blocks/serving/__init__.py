"""A step of inference as each rank runs it."""
