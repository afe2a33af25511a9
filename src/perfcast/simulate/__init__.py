"""Durations and dependencies → time; a simulation does not know where sizes and durations come from."""
