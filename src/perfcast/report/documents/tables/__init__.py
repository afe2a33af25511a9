"""Embedding tables: where they lie, the steps that look them up, the choice of their sharding."""
