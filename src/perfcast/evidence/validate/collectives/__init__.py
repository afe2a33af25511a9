"""Measured collectives against forecasts of them."""
