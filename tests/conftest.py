"""Property tests draw the same examples in every run; ``pytest --hypothesis-seed=random`` draws others."""

import os

from hypothesis import HealthCheck, settings

# Captures that an earlier run kept are no part of a test.
os.environ["PERFCAST_CACHE"] = "off"

settings.register_profile(
    "reproducible", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("reproducible")
