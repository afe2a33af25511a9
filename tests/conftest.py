"""Property tests draw the same examples in every run; ``pytest --hypothesis-seed=random`` draws others."""

import os

from hypothesis import HealthCheck, settings

from perfcast.cli import progress

# Captures that an earlier run kept are no part of a test.
os.environ["PERFCAST_CACHE"] = "off"

settings.register_profile(
    "reproducible", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("reproducible")

# What is written to standard error does not depend on how long the machine takes.
progress._QUIET_SECONDS = 3600.0
