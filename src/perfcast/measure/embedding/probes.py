"""What a machine has to spare at this moment: three pieces of work that never change, timed beside another.

    arithmetic   a loop of the interpreter: the core alone, and who else uses it
    memory       a pass over 4 MiB, more than a core's own caches hold
    lookup       128 bags of 16 rows of 256 bytes in a table of 64 MiB

Processor time is no help against another thread of the same core, the shared cache, or the memory's other
users: on a rented machine all three slow lookups down by a factor of two for milliseconds to tenths of a
second. Within the steps of one case logarithms of its time follow those of the probes linearly; slopes are
fitted to deviations from each case's own mean, so that nothing of a case's size gets into them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from perfcast.core.arrays import Floats
from perfcast.units import MIB

Clock = Callable[[], float]

PROBES = ("arithmetic", "memory", "lookup")

_TURNS = 1000
_MEMORY_ELEMENTS = MIB
_TABLE_ROWS, _WIDTH, _LOOKUPS, _POOLING = 262_144, 64, 2048, 16


class Probes:
    """Times the probes; holds some 70 MiB."""

    def __init__(self, clock: Clock = time.thread_time) -> None:
        self._clock = clock
        self._values = torch.ones(_MEMORY_ELEMENTS)
        self._table = torch.full((_TABLE_ROWS, _WIDTH), 0.5)
        drawn = np.random.default_rng(0).integers(0, _TABLE_ROWS, _LOOKUPS)
        self._indices = torch.from_numpy(drawn)
        self._offsets = torch.arange(0, _LOOKUPS, _POOLING)

    def seconds(self) -> Floats:
        """Seconds of each of ``PROBES``, shape [3]."""
        times = [self._clock()]
        count = 0
        for turn in range(_TURNS):
            count += turn
        times.append(self._clock())
        self._values.add_(1.0)
        times.append(self._clock())
        torch.nn.functional.embedding_bag(self._indices, self._table, self._offsets, mode="sum")
        times.append(self._clock())
        return np.diff(times)


def probe_slopes(seconds: Sequence[Floats], probes: Sequence[Floats]) -> Floats:
    """∂ ln(seconds) / ∂ ln(probe) within cases, by least squares over all steps; shape [3].

    Args:
        seconds: Of each case, shape [steps].
        probes: Of each case, shape [steps, 3].
    """
    logs = [(np.log(own), np.log(beside)) for own, beside in zip(seconds, probes, strict=True)]
    wanted = np.concatenate([own - own.mean() for own, _ in logs])
    given = np.concatenate([beside - beside.mean(axis=0) for _, beside in logs])
    slopes: Floats = np.linalg.lstsq(given, wanted, rcond=None)[0]
    return slopes


def at_reference(seconds: Floats, probes: Floats, slopes: Floats, reference: Floats) -> float:
    """Geometric mean of a case's steps, each stated for the moment at which the probes take ``reference``."""
    stated = np.log(seconds) - (np.log(probes) - np.log(reference)) @ slopes
    return float(np.exp(stated.mean()))
