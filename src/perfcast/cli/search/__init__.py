"""``perfcast search``: a search, a sweep of searches, published searchers."""
