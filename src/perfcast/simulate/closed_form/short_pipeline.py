"""1F1B with no more micro-batches than stages: every pass in its turn, for n plans at once.

Such a pipeline never runs steadily, so that no way through one stage says how long it takes. Every pass
starts when its stage is free and its neighbour's message is there; which of them follows which is the same
for all plans of as many stages and micro-batches.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.simulate.schedule.action import Pass
from perfcast.simulate.schedule.one_by_one import one_forward_one_backward

#: Whether a forward, of which stage, of which micro-batch.
_Step = tuple[bool, int, int]


def short_makespans(f: Floats, b: Floats, m: Integers, t: Floats) -> Floats:
    """Seconds from the first forward to the last gradient, shape [n].

    Args:
        f, b: Of a forward and a backward of one micro-batch on each stage, [stages, n].
        m: Micro-batches, [n].
        t: Of a message between neighbours, [n].
    """
    found = np.zeros(f.shape[1])
    for count in np.unique(m).tolist():
        rows = np.flatnonzero(m == count)
        found[rows] = _play(f[:, rows], b[:, rows], count, t[rows])
    return found


def _play(f: Floats, b: Floats, count: int, t: Floats) -> Floats:
    """Of plans with equally many micro-batches."""
    last = len(f) - 1
    free = [np.zeros(f.shape[1]) for _ in f]
    ends: dict[_Step, Floats] = {}
    for step in _order(len(f), count):
        is_forward, stage, _ = step
        before = _before(step, last)
        start = free[stage]
        if before is not None:
            ready = ends.pop(before)
            start = np.maximum(start, ready if before[1] == stage else ready + t)
        free[stage] = ends[step] = start + (f if is_forward else b)[stage]
    found: Floats = np.max(free, axis=0)
    return found


def _before(step: _Step, last: int) -> _Step | None:
    """The pass whose result a pass takes."""
    is_forward, stage, at = step
    if is_forward:
        return (True, stage - 1, at) if stage else None
    return (True, stage, at) if stage == last else (False, stage + 1, at)


@lru_cache(maxsize=512)
def _order(num_stages: int, count: int) -> tuple[_Step, ...]:
    """All passes, each behind what it waits for."""
    rows = [
        [(action.kind is Pass.FORWARD, stage, action.micro_batch) for action in actions]
        for stage in range(num_stages)
        for actions in [one_forward_one_backward(num_stages, stage, count)]
    ]
    found: dict[_Step, None] = {}
    at = [0] * num_stages
    while len(found) < 2 * count * num_stages:
        for stage, row in enumerate(rows):
            while at[stage] < len(row):
                before = _before(row[at[stage]], num_stages - 1)
                if before is not None and before not in found:
                    break
                found[row[at[stage]]] = None
                at[stage] += 1
    return tuple(found)
