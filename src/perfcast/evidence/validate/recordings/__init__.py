"""Recordings forecast from others: a model's on another device, and steps left out."""
