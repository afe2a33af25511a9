"""A few kernels, measured in minutes, that tell the learned forecaster most about a device."""
