"""Traces made fit to be shared."""
