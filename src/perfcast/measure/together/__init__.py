"""Measurements while all ranks of a machine are at work: calibrations and whole steps."""
