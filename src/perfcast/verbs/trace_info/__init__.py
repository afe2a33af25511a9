"""``perfcast trace info``: what trace files are and hold."""
