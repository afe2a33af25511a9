"""What is answered, by what was asked."""
