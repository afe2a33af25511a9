"""Fits the constants of processors as devices to measured steps."""
