"""NeuSight (ASPLOS 2025)."""
