"""Traces: what profilers recorded, and forecasts written in the formats that trace viewers open."""
