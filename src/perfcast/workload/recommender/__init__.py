"""Recommendation models: modules, indices, a plain placement of their tables."""
