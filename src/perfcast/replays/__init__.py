"""A recorded step run again as a benchmark: selected, scaled, played, written as a program of its own."""
