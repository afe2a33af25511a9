"""``perfcast replay``."""
