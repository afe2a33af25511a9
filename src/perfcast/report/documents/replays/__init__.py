"""A recorded step run again: beside its recording, and as a program of its own."""
