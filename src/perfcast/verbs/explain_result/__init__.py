"""How a result came to be, and whether it comes to be again."""
