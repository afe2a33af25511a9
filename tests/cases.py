"""How many cases a test draws: few in ``make test``, many in ``make fuzz`` (PERFCAST_FUZZ_CASES=N)."""

from __future__ import annotations

import os

VARIABLE = "PERFCAST_FUZZ_CASES"


def is_long_run() -> bool:
    """Whether this is a run for long: cases differ from run to run, and none are kept from earlier ones."""
    return bool(os.environ.get(VARIABLE))


def cases(usual: int, *, share: float = 1.0) -> int:
    """Cases of one test.

    Args:
        usual: In ``make test``.
        share: Of PERFCAST_FUZZ_CASES, for tests whose cases take long or that share a subject; at
            least ``usual``.
    """
    said = os.environ.get(VARIABLE)
    return max(usual, round(int(said) * share)) if said else usual
