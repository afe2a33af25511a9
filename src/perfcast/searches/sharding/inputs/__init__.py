"""What is to be placed, read from files or drawn at random."""
