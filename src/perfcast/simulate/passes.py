"""Passes of micro-batches through stages that are played one by one: what that costs is known before.

With timelines and causes a pass takes some 0.2 ms and a kilobyte, without them 10 µs.
"""

from __future__ import annotations

from perfcast.ranges import Range

_ADVICE = "take --closed-form, a larger --micro-batch-size or a smaller batch"
#: Of one step, with its timeline and causes.
PASSES = Range(1, 500_000, _ADVICE)
#: Of one step whose time alone is asked for.
QUICK_PASSES = Range(1, 5_000_000, _ADVICE)
#: Of all steps that a search plays.
PASSES_OF_SEARCH = Range(
    0, 50_000_000, "take --no-simulate, a smaller --num-simulated, or a smaller --global-batch-size"
)
