"""Attention kernels of every kind: what they have to do, and how long it takes on paper."""
