"""Meshes of devices: as discovered, as drawn, and steps on them."""
