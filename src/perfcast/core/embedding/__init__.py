"""Embedding tables, and what a batch looks up in them."""
