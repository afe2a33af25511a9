"""What JSON holds of searches: for training, for inference, over grids of both."""
