"""One sender or one receiver: send and receive, gather to a root, scatter from one."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork


def send(geometry: Geometry) -> CollectiveWork:
    """S over the narrowest link between the two, one hop on the outermost level that parts them."""
    rate = np.where(geometry.spans > 1, geometry.rates, np.inf).min(axis=1)
    return CollectiveWork(_outermost(geometry), geometry.message_bytes / rate, pattern="send")


def rooted(geometry: Geometry) -> CollectiveWork:
    """Gather or scatter: the root's link carries all but its own part, each level what comes from outside."""
    members = geometry.members[:, None]
    part = (members - geometry.below) / members
    part[:, 0] = (geometry.spans[:, 0] - 1) / geometry.members
    seconds = np.where(geometry.spans > 1, geometry.message_bytes[:, None] * part / geometry.rates, 0.0)
    return CollectiveWork((geometry.spans > 1).astype(np.float64), seconds.max(axis=1), pattern="send")


def _outermost(geometry: Geometry) -> Floats:
    """1 on the outermost level with more than one child, else 0; shape [n, L]."""
    busy = geometry.spans > 1
    beyond = np.cumsum(busy[:, ::-1], axis=1)[:, ::-1]
    hop: Floats = (busy & (beyond == 1)).astype(np.float64)
    return hop
