"""Measured tables, as others published them, in one tidy schema."""
