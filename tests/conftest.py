"""Property tests draw the same examples in every run; ``pytest --hypothesis-seed=random`` draws others.

So does a run for long (``cases``, PERFCAST_FUZZ_CASES=N): others each time, printing how to draw one again.
"""

import os

from hypothesis import HealthCheck, settings

from cases import is_long_run
from perfcast.cli import progress

# Captures that an earlier run kept are no part of a test.
os.environ["PERFCAST_CACHE"] = "off"

settings.register_profile(
    "reproducible", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("long" if is_long_run() else "reproducible")

# What is written to standard error does not depend on how long the machine takes.
progress._QUIET_SECONDS = 3600.0
