"""Measures embedding lookups and fits their cost."""
