"""Searches as documents: for training, for inference, over grids of both."""
