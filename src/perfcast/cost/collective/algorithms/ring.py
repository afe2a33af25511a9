"""Rings: every rank sends to the next, n - 1 times or twice that.

With S the message, n the ranks, B the rate of the narrowest link the ring crosses (Patarasuk, Yuan: Bandwidth
optimal all-reduce algorithms for clusters of workstations, JPDC 2009): reduce-scatter and all-gather send
(n - 1) / n · S over every link, all-reduce both after one another, broadcast and reduce S in a pipeline.
"""

from __future__ import annotations

from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork, chain_hops


def ring_all_reduce(geometry: Geometry) -> CollectiveWork:
    """2 (n - 1) hops, 2 (n - 1) / n · S / B."""
    half = ring_half(geometry)
    return CollectiveWork(2 * half.hops, 2 * half.transfer_seconds)


def ring_half(geometry: Geometry) -> CollectiveWork:
    """All-gather or reduce-scatter: n - 1 hops, (n - 1) / n · S / B."""
    part = (geometry.members - 1) / geometry.members
    return CollectiveWork(chain_hops(geometry), geometry.message_bytes * part / geometry.ring_rate)


def ring_pipeline(geometry: Geometry) -> CollectiveWork:
    """Broadcast or reduce: n - 1 hops, S / B."""
    return CollectiveWork(chain_hops(geometry), geometry.message_bytes / geometry.ring_rate)
