"""What is said of recordings: what they hold, where their time went, what they forecast."""
