"""Single kernels: measured tables against every predictor."""
