"""One level after the other: reduce-scatter inwards to outwards, all-gather back, a ring on every level.

The part that a member still has on a level is S over the members below one child (Jia et al.: Highly scalable
deep learning training system with mixed-precision, 2018; the composition per mesh axis of Xu et al.: GSPMD,
2021). Levels follow one another, so their times add.
"""

from __future__ import annotations

import numpy as np

from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork, per_level


def hierarchical_all_reduce(geometry: Geometry) -> CollectiveWork:
    """Reduce-scatter on every level, then all-gather on every level."""
    half = hierarchical_half(geometry)
    return CollectiveWork(2 * half.hops, 2 * half.transfer_seconds)


def hierarchical_half(geometry: Geometry) -> CollectiveWork:
    """Reduce-scatter or all-gather on every level."""
    part = (geometry.spans - 1) / geometry.spans
    sent = geometry.message_bytes[:, None] / geometry.below * part
    return CollectiveWork(geometry.spans - 1, per_level(geometry, sent).sum(axis=1))


def hierarchical_pipeline(geometry: Geometry) -> CollectiveWork:
    """Broadcast or reduce: a pipeline on every level, one after the other; a child's root is one member."""
    sent = np.repeat(geometry.message_bytes[:, None], geometry.spans.shape[1], axis=1)
    return CollectiveWork(geometry.spans - 1, per_level(geometry, sent).sum(axis=1))
