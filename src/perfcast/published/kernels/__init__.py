"""Single kernels as the NeuSight study sees them."""
