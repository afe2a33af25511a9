"""A whole training run: steps, checkpoints, interruptions, energy, dollars."""
