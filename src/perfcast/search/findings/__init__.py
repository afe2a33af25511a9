"""A search as a user asks for it, and what is said of its winner."""
