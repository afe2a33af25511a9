"""What would help: plans that fit, and bounds of a step that cost time."""
