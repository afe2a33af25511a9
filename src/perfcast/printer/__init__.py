"""What goes to the terminal: readable text, and nothing that commands it."""
