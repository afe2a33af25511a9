"""A replay written as a program of its own."""
