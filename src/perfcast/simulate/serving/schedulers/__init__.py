"""Whose rules say which requests a step computes: one file each, from the frameworks' public sources."""
