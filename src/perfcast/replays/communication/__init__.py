"""What ranks of a replay send each other."""
