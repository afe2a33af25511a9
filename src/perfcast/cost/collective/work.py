"""What an algorithm has to do: hops on each level, and seconds of transfer at full rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.table import Array


@dataclass(frozen=True, eq=False)
class Work:
    """Of n calls.

    Attributes:
        hops: One after the other, on each level; shape [n, L].
        transfer_seconds: At the links' achieved rates, all levels together; inf where the algorithm cannot be
            used. Shape [n].
        pattern: Of the ranks' work, see ``constants.PATTERNS``.
        judged_seconds: Transfer as the library's own model sees it when it chooses; None: as it is.
    """

    hops: Array
    transfer_seconds: Array
    pattern: str = "chain"
    judged_seconds: Array | None = None


Algorithm = Callable[[Geometry], Work]


def chain_hops(geometry: Geometry) -> Array:
    """Hops of a walk through all members, by the outermost level that each crosses: n - 1 in all; [n, L]."""
    hops: Array = (geometry.spans - 1) * geometry.members[:, None] / (geometry.spans * geometry.below)
    return hops


def tree_hops(geometry: Geometry) -> Array:
    """Hops from the leaves to the root of binary trees on each level; shape [n, L]."""
    hops: Array = np.ceil(np.log2(geometry.spans))
    return hops


def per_level(geometry: Geometry, bytes_of_member: Array) -> Array:
    """Seconds of each level for what one member sends there; 0 where the group has one child; [n, L]."""
    seconds: Array = np.where(geometry.spans > 1, bytes_of_member / geometry.rates, 0.0)
    return seconds
