"""The forecast of a step: on one device and under a plan, by layer, by module, along the time."""
