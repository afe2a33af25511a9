"""Curves of communication time over message size, fitted to measurements.

``affine`` is a latency and a bandwidth, ``sigmoid`` a bandwidth that rises between two knees,
``interpolate`` follows the points themselves; ``choose`` takes the one that does best on sizes it was not
fitted on.
"""

from perfcast.cost.collective_fit.choose import LEAST_SIZES, fit_curve
from perfcast.cost.collective_fit.curve import Curve, FittedLine, Form

__all__ = ["LEAST_SIZES", "Curve", "FittedLine", "Form", "fit_curve"]
