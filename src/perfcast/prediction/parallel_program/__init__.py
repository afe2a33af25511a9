"""Parallel programs of one's own: virtual ranks captured, priced and simulated together."""
