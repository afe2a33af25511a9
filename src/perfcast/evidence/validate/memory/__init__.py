"""Measured memory of training runs against footprints."""
