"""A program run on symbolic tensors, and what it did."""
