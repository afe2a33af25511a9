"""Fits predictors to measured tables."""
