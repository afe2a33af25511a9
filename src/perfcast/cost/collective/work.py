"""What an algorithm has to do: hops on each level, and seconds of transfer at full rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.collective.constants import Pattern
from perfcast.cost.collective.geometry import Geometry


@dataclass(frozen=True, eq=False)
class CollectiveWork:
    """What an algorithm does for n collectives.

    Attributes:
        hops: One after the other, on each level; shape [n, L].
        transfer_seconds: At the links' achieved rates, all levels together; inf where the algorithm cannot be
            used. Shape [n].
        pattern: How ranks work together, see ``constants.Pattern``.
        judged_seconds: Transfer as the library's own model sees it when it chooses; None: as it is.
    """

    hops: Floats
    transfer_seconds: Floats
    pattern: Pattern = "chain"
    judged_seconds: Floats | None = None


Algorithm = Callable[[Geometry], CollectiveWork]


def chain_hops(geometry: Geometry) -> Floats:
    """Hops of a walk through all members, by the outermost level that each crosses: n - 1 in all; [n, L]."""
    hops: Floats = (geometry.spans - 1) * geometry.members[:, None] / (geometry.spans * geometry.below)
    return hops


def tree_hops(geometry: Geometry) -> Floats:
    """Hops from the leaves to the root of binary trees on each level; shape [n, L]."""
    hops: Floats = np.ceil(np.log2(geometry.spans))
    return hops


def per_level(geometry: Geometry, bytes_of_member: Floats) -> Floats:
    """Seconds of each level for what one member sends there; 0 where the group has one child; [n, L]."""
    seconds: Floats = np.where(geometry.spans > 1, bytes_of_member / geometry.rates, 0.0)
    return seconds
