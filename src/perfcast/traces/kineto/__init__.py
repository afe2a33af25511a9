"""Timelines as PyTorch's profiler writes them (Kineto)."""
