"""What produces evidence and weights. It reads the rest; nothing that answers a user reads it."""
