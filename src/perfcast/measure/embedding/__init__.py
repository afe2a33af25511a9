"""Embedding lookups, really made and timed: which cases, how they run, and what is kept of them."""
