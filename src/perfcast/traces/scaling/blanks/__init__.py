"""Operators run on tensors without memory, those that might look for memory in a process apart."""
