"""Reduction in the switches: NVLink SHARP within a node, InfiniBand SHARP above it.

A switch that reduces and multicasts takes from each of n members S, to be reduced for the others, and the
S / n that the member has reduced for all; it gives as much. So a member sends S (1 + 1 / n), whatever n
(operations as in NVIDIA, GTC 2024, session S62129). Above, each member holds S / n: with InfiniBand SHARP it
is sent once, else two balanced trees pass it up and down. Chunks keep all levels busy at once.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork, tree_hops


def in_network_all_reduce(geometry: Geometry) -> CollectiveWork:
    """Where the innermost level reduces; the levels above reduce too, or have trees."""
    usable = (geometry.network_rates[:, 0] > 0) & (geometry.spans[:, 0] > 1)
    seconds = np.stack([_level_seconds(geometry, i) for i in range(geometry.spans.shape[1])], axis=1)
    hops = np.where(geometry.network_rates > 0, 2.0 * (geometry.spans > 1), 2 * tree_hops(geometry))
    return CollectiveWork(hops, np.where(usable, seconds.max(axis=1), np.inf), pattern="switch")


def _level_seconds(geometry: Geometry, level: int) -> Floats:
    """What one member sends on a level, over its rate; 0 where the group has one child; shape [n]."""
    spans = geometry.spans[:, level]
    held = geometry.message_bytes / geometry.below[:, level]
    network, plain = geometry.network_rates[:, level], geometry.rates[:, level]
    extra = 1 / spans if level == 0 else 0.0  # a network's switches answer, the members do not multicast
    with np.errstate(divide="ignore", invalid="ignore"):
        reduced = held * (1 + extra) / network
    treed = held * np.where(spans <= 2, 1.0, 2.0) / plain
    seconds: Floats = np.where(spans > 1, np.where(network > 0, reduced, treed), 0.0)
    return seconds
