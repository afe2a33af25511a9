"""Recorded calls, out of an execution trace or a timeline alone."""
