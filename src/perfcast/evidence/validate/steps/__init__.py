"""Whole-model steps of the NeuSight study against forecasts of them."""
