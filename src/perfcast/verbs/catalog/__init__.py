"""What the catalog lists: devices, clusters, models, predictors, with the source of every figure."""

from perfcast.verbs.catalog.lists import clusters, devices, models

__all__ = ["clusters", "devices", "models"]
