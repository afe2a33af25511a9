"""Constants of vision kernels, fitted to whole steps."""
