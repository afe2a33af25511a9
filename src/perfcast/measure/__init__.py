"""All that touches real hardware: designed kernels, timing, calibration, whole steps."""
