"""A layer of a transformer on one rank: its parts in order, training and serving."""
