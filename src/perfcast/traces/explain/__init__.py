"""Recordings explained: where time went, why devices waited, how ranks and runs differ."""
