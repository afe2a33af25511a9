"""``perfcast serving``: what clients of a deployment wait, and what it answers and costs."""
