"""What is asked: one frozen request for each question, built once and passed whole."""
