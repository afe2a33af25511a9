"""Grids of searches, resumable, on one machine or on Ray."""
