"""Processors of the catalog as devices: PyTorch's operators on all cores of one.

``work`` says what an operator asks of a processor, in columns; ``model`` turns that into seconds by physics
with few constants, fitted to measured steps (``constants.toml``).
"""
