"""Recursive halving and doubling: partners at distances 1, 2, 4 … exchange half of what is left each time.

Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 2005: log2 n
hops and (n - 1) / n · S for each half. Where a level's members are no power of two, those above the last
power first give all they have to a partner and get it back in the end.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork, per_level


def recursive_all_reduce(geometry: Geometry) -> CollectiveWork:
    """Halving from the innermost level outwards, doubling back."""
    hops, seconds, extra = _half(geometry)
    return CollectiveWork(2 * hops + 2 * extra, 2 * seconds + 2 * _extra_seconds(geometry, extra))


def recursive_half(geometry: Geometry) -> CollectiveWork:
    """All-gather by doubling, reduce-scatter by halving."""
    hops, seconds, extra = _half(geometry)
    return CollectiveWork(hops + extra, seconds + _extra_seconds(geometry, extra))


def _half(geometry: Geometry) -> tuple[Floats, Floats, Floats]:
    """Hops [n, L], seconds [n], and 1 on levels whose members are no power of two [n, L]."""
    hops = np.floor(np.log2(geometry.spans))
    extra = (2.0**hops < geometry.spans).astype(np.float64)
    whole = 2.0**hops
    sent = geometry.message_bytes[:, None] / geometry.below * (whole - 1) / whole
    return hops, per_level(geometry, sent).sum(axis=1), extra


def _extra_seconds(geometry: Geometry, extra: Floats) -> Floats:
    seconds: Floats = per_level(geometry, extra * geometry.message_bytes[:, None] / geometry.below).sum(
        axis=1
    )
    return seconds
