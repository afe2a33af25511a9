"""1F1B with no more micro-batches than stages: every pass in its turn, for n plans at once.

Such a pipeline never runs steadily, so that no way through one stage says how long it takes. Every pass
starts when its stage is free and its neighbour's message is there. Passes that must wait for equally many
others in a row (a wave) are of different stages and wait for none of each other, so they are computed at
once: of p stages, stage s runs

    the forward of micro-batch j    in wave s + j where j < p - s (before its first backward), else s + 2 j
    the backward of micro-batch k   in wave 2 p - 1 - s + 2 k

and a message is taken before its sender has the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfcast.core.arrays import Floats, Integers


def short_makespans(f: Floats, b: Floats, m: Integers, t: Floats) -> Floats:
    """Seconds from the first forward to the last gradient, shape [n].

    Args:
        f, b: Of a forward and a backward of one micro-batch on each stage, [stages, n].
        m: Micro-batches, at most as many as stages, [n].
        t: Of a message between neighbours, [n].
    """
    found = np.zeros(f.shape[1])
    for count in np.unique(m).tolist():
        rows = np.flatnonzero(m == count)
        found[rows] = _play(f[:, rows], b[:, rows], count, t[rows])
    return found


def _play(f: Floats, b: Floats, count: int, t: Floats) -> Floats:
    """Of plans with equally many micro-batches.

    What has arrived stands beside its stage; above the first and below the last there is room for what
    nobody waits for.
    """
    num_stages, num_plans = f.shape
    free = np.zeros((num_stages, num_plans))
    forwards, backwards = np.zeros((2, num_stages + 1, num_plans))
    into, out = forwards[:-1], forwards[1:]
    into_backward, out_of_backward = backwards[1:], backwards[:-1]
    for forward, backward in _waves(num_stages, count):
        if forward is not None:
            ends = free[forward]
            np.maximum(ends, into[forward], out=ends)
            ends += f[forward]
            np.add(ends, t, out=out[forward])
        if backward is not None:
            ends = free[backward]
            np.maximum(ends, into_backward[backward], out=ends)
            ends += b[backward]
            np.add(ends, t, out=out_of_backward[backward])
    found: Floats = free.max(axis=0)
    return found


def _waves(num_stages: int, count: int) -> Iterator[tuple[slice | None, slice | None]]:
    """Of every wave the stages that run a forward, and those that run a backward.

    >>> list(_waves(2, 1))
    [(slice(0, 1, 1), None), (slice(1, 2, 1), None), (None, slice(1, 2, 2)), (None, slice(0, 1, 2))]
    """
    last, most = num_stages - 1, count - 1
    for wave in range(2 * (num_stages + count) - 2):
        if wave <= last:
            yield slice(max(wave - most, 0), wave + 1, 1), None
            continue
        first, latest = -((last - wave) // 2), min(most, wave - num_stages, wave // 2)
        forward = slice(wave - 2 * latest, wave - 2 * first + 1, 2) if first <= latest else None
        over = 2 * num_stages - 1 - wave
        first, latest = max(-(over // 2), 0), min(most, (wave - num_stages) // 2)
        backward = slice(over + 2 * first, over + 2 * latest + 1, 2) if first <= latest else None
        yield forward, backward
