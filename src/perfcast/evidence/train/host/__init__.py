"""Fits what the host spends on an operator, and writes the file of constants."""
