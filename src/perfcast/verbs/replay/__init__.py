"""``perfcast replay``: a recorded step run again as a benchmark."""
