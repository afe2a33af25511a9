"""What is wanted of a plan, and which plans are best: shortlisted, played by events, told apart."""
