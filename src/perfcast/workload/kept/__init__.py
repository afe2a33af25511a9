"""Captured steps, kept: in memory and as files, so that the same step is captured once.

None of these files imports torch: where a step is kept, it is not needed.
"""
