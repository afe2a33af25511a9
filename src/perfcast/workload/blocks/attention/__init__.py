"""Attention of one rank: training (standard, latent, cut along the sequence) and serving."""
