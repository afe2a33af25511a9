"""Widths of steps of inference from published ones."""
