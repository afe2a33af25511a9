"""Several ranks of a replay, each a process."""
