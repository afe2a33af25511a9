"""Serving as plain data: requests, their load, schedulers, deployments, and what one step computes."""
