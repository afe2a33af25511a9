"""Fits the learned forecaster to measured tables."""
