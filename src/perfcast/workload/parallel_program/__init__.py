"""Parallel programs captured on virtual ranks, in one process."""
