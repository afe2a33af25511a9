"""Embedding, head and loss of one rank, training and serving."""
