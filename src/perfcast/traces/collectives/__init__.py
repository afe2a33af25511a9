"""Collectives and messages of recorded ranks: process groups, sizes, kernels."""
