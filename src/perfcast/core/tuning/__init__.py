"""What of a model a training trains: all of it, what is not frozen, or low-rank adapters beside it."""
