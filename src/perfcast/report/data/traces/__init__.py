"""What JSON holds of recordings."""
