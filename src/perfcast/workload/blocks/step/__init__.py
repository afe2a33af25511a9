"""A step put together from layers: stages, data parallelism, update; training and serving."""
