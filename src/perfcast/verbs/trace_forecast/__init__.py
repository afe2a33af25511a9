"""``perfcast trace forecast``: recorded steps elsewhere, or changed."""
