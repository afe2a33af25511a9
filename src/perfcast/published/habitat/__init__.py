"""Habitat (USENIX ATC 2021)."""
