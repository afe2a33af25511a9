"""Programs for another batch, or another number of ranks."""
