"""``perfcast measure`` and its commands."""
