"""Time and memory of many plans at once."""
