"""Trains published predictors on the measurements of the NeuSight study."""
