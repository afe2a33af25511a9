"""The memory of a step, on one device and under a plan."""
