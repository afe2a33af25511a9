"""All-to-all: every rank sends a different S / n to every other.

Ranks exchange directly. On the innermost level goes what is for the others there; on every other level what
is for ranks outside the child. The levels work at once. On a torus' ring of s with both directions in use a
message travels s / 4 hops on average and takes so much more of the links (Austin et al.: How to scale your
model, 2025).
"""

from __future__ import annotations

import numpy as np

from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork, per_level


def direct_all_to_all(geometry: Geometry) -> CollectiveWork:
    """Every level at once; one hop on the outermost level in use, which has the longest way."""
    message, members = geometry.message_bytes[:, None], geometry.members[:, None]
    part = (members - geometry.below) / members
    part[:, 0] = (geometry.spans[:, 0] - 1) / geometry.members
    torus = (geometry.spans - 1) / geometry.spans * np.maximum(geometry.spans / 4, 1.0)
    part = np.where(geometry.is_torus, torus, part)
    hops = (geometry.spans > 1).astype(np.float64)
    return CollectiveWork(hops, per_level(geometry, message * part).max(axis=1), pattern="all_to_all")
