"""From recordings to a replay program."""
