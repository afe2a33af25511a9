"""``perfcast trace explain``: where the time of recorded steps went."""
