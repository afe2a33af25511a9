"""``perfcast scale``: devices added to a training, and how far it can go."""
