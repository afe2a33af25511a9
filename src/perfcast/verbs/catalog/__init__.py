"""What the catalog lists: devices, clusters, models, predictors, with the source of every figure."""
