"""Measured against predicted, every predictor side by side."""
