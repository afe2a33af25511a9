"""How many bytes a step holds, and when."""
