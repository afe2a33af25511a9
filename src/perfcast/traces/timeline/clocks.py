"""How far the clocks of recorded ranks differ, by the collectives that end on all members at once.

Ranks of one machine share a clock; those of others are set by the network, and are often some hundred
microseconds to some milliseconds apart. A collective of an accelerator ends on all its members within some
ten microseconds, so that the median of what a rank's ends are late is its clock's error. What is within the
noise stays: smaller than ``LEAST_SECONDS``, or not at least four times its own spread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.traces.collectives.kernels import is_gloo
from perfcast.traces.events import Trace
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import MICRO

#: Errors below are not told from how evenly collectives end.
LEAST_SECONDS = 50 * MICRO
#: Collectives by which a clock is judged, at least; and how often ranks that are only joined by others
#: are corrected by these.
_LEAST_COLLECTIVES, _ROUNDS = 3, 8


def clock_errors(
    traces: Sequence[Trace], programs: Sequence[RankProgram], zeros: Sequence[float]
) -> tuple[float, ...]:
    """Seconds by which each rank's clock is ahead of the others'.

    Args:
        programs: Of the same ranks; works of one collective have one name.
        zeros: Of each rank, the reading of its clock at the start of its recording.
    """
    ends: dict[str, list[tuple[int, float]]] = {}
    for rank, (trace, program, zero) in enumerate(zip(traces, programs, zeros, strict=True)):
        for work in program.works:
            if work.collective and not is_gloo(work.name):
                end = zero + float(trace.events.end_seconds[work.row])
                ends.setdefault(work.collective, []).append((rank, end))
    shared = [members for members in ends.values() if len(members) > 1]
    errors = np.zeros(len(traces))
    for _ in range(_ROUNDS):
        late: list[list[float]] = [[] for _ in traces]
        for members in shared:
            middle = float(np.median([end - errors[rank] for rank, end in members]))
            for rank, end in members:
                late[rank].append(end - middle)
        found = np.array([_error(own) for own in late])
        if np.allclose(found, errors, atol=MICRO, rtol=0.0):
            break
        errors = found
    return tuple(errors.tolist())


def _error(late: Sequence[float]) -> float:
    if len(late) < _LEAST_COLLECTIVES:
        return 0.0
    middle = float(np.median(late))
    spread = float(np.median(np.abs(np.array(late) - middle)))
    return middle if abs(middle) >= max(LEAST_SECONDS, 4 * spread) else 0.0
