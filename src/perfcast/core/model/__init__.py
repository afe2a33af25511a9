"""A transformer by its sizes, and what one rank of it holds: weights, heads, cache."""
