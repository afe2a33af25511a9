"""Data-movement limits of training (Epoch AI)."""
