"""Figures of calls in rows: what the closed form adds up, for n plans at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.forecast.plan import CAUSES
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import LayerTime

#: Rows of the figures of a sequence of calls; behind them one for each of ``CAUSES``.
SECONDS, OWN, HOST, LATE, FIRST_CAUSE = range(5)
NUM_FIGURES = FIRST_CAUSE + len(CAUSES)
CAUSE_ROW = {cause: FIRST_CAUSE + place for place, cause in enumerate(CAUSES)}
#: Parts of a layer, and of what stands beside it; rows of a side's figures.
FORWARD, BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = range(4)
GATHER, GATHER_AGAIN, GRADIENT_REDUCTION = range(3)
SIDE_SECONDS, SIDE_COMPUTE, SIDE_HOST = range(3)


def call_figures(time: CallsTime) -> list[float]:
    """Of one sequence of calls: seconds, those of the rank's own work, those of the host, until its end where
    the host begins with it, and by cause."""
    causes = [time.seconds_by_cause.get(cause, 0.0) for cause in CAUSES]
    late = time.seconds + time.lead_seconds
    return [time.seconds, time.compute_seconds, time.host_seconds, late, *causes]


def in_a_row(first: Floats | None, part: Floats, count: int) -> Floats:
    """``simulate.combine.in_a_row``: a sequence and ``count`` equal ones behind it, [figure, n]."""
    found: Floats = count * part
    own = np.maximum(part[SECONDS], part[HOST])
    found[LATE] = part[LATE] + (count - 1) * own
    if first is None:
        return found
    late = np.maximum(first[LATE] + found[SECONDS], first[HOST] + found[LATE])
    found = first + found
    found[LATE] = late
    return found


def beside_host(time: Floats) -> Floats:
    """With what a sequence ends later whose host begins with it and is not ahead of what follows."""
    found = time.copy()
    found[SECONDS] = np.maximum(time[LATE], time[SECONDS])
    found[CAUSE_ROW["host"]] += found[SECONDS] - time[SECONDS]
    found[HOST], found[LATE] = 0.0, found[SECONDS]
    return found


def layer_figures(times: Iterable[tuple[CallsTime, CallsTime, CallsTime, CallsTime]]) -> Floats:
    """Of layers' forward, backward, gradients of inputs and of weights, [part, figure, layer]."""
    rows = [[call_figures(part) for part in parts] for parts in times]
    return np.ascontiguousarray(np.array(rows).transpose(1, 2, 0))


def side_figures(times: Sequence[LayerTime]) -> Floats:
    """Of what stands beside layers, [part, figure, layer]."""
    rows = [
        [
            [side.seconds, side.compute_seconds, side.host_seconds]
            for side in (time.gather, time.gather_again, time.gradient_reduction)
        ]
        for time in times
    ]
    return np.array(rows).reshape(-1, 3, 3).transpose(1, 2, 0)


def on_slower_rank(figures: Floats, factor: float) -> Floats:
    """Of a rank whose compute takes ``factor`` times as long, [figure, n]; the rest is the straggler's."""
    found, extra = figures.copy(), (factor - 1.0) * figures[OWN]
    found[SECONDS] += extra
    found[LATE] = np.maximum(found[LATE], found[SECONDS])
    found[CAUSE_ROW["straggler"]] += extra
    return found
