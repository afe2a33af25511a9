"""Forecasts from recordings: other devices, hosts, batches, clusters, changed programs."""
