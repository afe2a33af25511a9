"""Execution traces: every operator of a program with its arguments."""
