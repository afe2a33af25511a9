"""Collective calls in columns: what is exchanged, how much of it, and how the group lies in the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.collective import COLLECTIVES
from perfcast.errors import InputError, UnknownNameError


@dataclass(frozen=True, eq=False)
class CollectiveTable:
    """n calls on one cluster of L levels.

    Attributes:
        collectives: Index into ``core.collective.COLLECTIVES``, shape [n].
        message_bytes: By the convention of ``core.collective.message_bytes``; of an uneven all-to-all
            ``uneven_bytes`` of its ranks. Shape [n].
        spans: Members below one parent on each level, from the devices outwards, as ``Cluster.span`` gives
            them; shape [n, L].
        reducible: Whether switches can reduce the element type, shape [n].
        concurrent_groups: Groups of the same shape, on other devices, that are active at once; they matter
            where a level is oversubscribed. Shape [n].
        visits: Of a dispatch, copies that a token sends to different ranks and to different nodes by
            expectation, and one, each over its experts; shape [n, 3]. Ones of all others.
        sharing: Collectives that use the same links of the same devices at once, this one counted: each has
            so many times less of every link. Shape [n].
    """

    collectives: Integers
    message_bytes: Floats
    spans: Integers
    reducible: Flags
    concurrent_groups: Floats
    sharing: Floats
    visits: Floats

    def __len__(self) -> int:
        return len(self.message_bytes)

    def take(self, index: Integers | slice) -> CollectiveTable:
        """The calls that ``index`` selects."""
        return CollectiveTable(*(getattr(self, field.name)[index] for field in fields(self)))

    @property
    def group_sizes(self) -> Integers:
        """Ranks of each group, shape [n]."""
        sizes: Integers = self.spans.prod(axis=1)
        return sizes


def collective_table(
    collectives: str | Sequence[str] | Integers,
    message_bytes: ArrayLike,
    spans: ArrayLike,
    *,
    reducible: ArrayLike = True,
    concurrent_groups: ArrayLike = 1.0,
    sharing: ArrayLike = 1.0,
    visits: ArrayLike = 1.0,
) -> CollectiveTable:
    """Columns from anything that broadcasts to one shape [n]; ``spans`` to [n, L].

    Raises:
        UnknownNameError: Not a collective.
        InputError: Bytes below zero or not finite, spans, groups or sharing below one.
    """
    sizes = np.atleast_1d(np.asarray(message_bytes, dtype=np.float64))
    codes = np.atleast_1d(collective_codes(collectives))
    extents = np.atleast_2d(np.asarray(spans, dtype=np.int64))
    count = max(len(sizes), len(codes), len(extents), np.size(sharing), np.size(concurrent_groups))
    table = CollectiveTable(
        np.broadcast_to(codes, (count,)),
        np.broadcast_to(sizes, (count,)),
        np.broadcast_to(extents, (count, extents.shape[1])),
        np.broadcast_to(np.asarray(reducible, dtype=np.bool_), (count,)),
        np.broadcast_to(np.asarray(concurrent_groups, dtype=np.float64), (count,)),
        np.broadcast_to(np.asarray(sharing, dtype=np.float64), (count,)),
        np.broadcast_to(np.asarray(visits, dtype=np.float64), (count, 3)),
    )
    _check(table)
    return table


def collective_codes(names: str | Sequence[str] | Integers) -> Integers:
    """Index of each name in ``COLLECTIVES``; codes pass.

    Raises:
        UnknownNameError: Not a collective.
    """
    if isinstance(names, np.ndarray) and names.dtype.kind == "i":
        return names.astype(np.int64)
    codes = {name: code for code, name in enumerate(COLLECTIVES)}
    wanted = [names] if isinstance(names, str) else list(names)
    for name in dict.fromkeys(wanted):
        if name not in codes:
            raise UnknownNameError("collective", str(name), COLLECTIVES, f"Known: {', '.join(COLLECTIVES)}.")
    return np.array([codes[name] for name in wanted], dtype=np.int64)


def uneven_bytes(sent_bytes: ArrayLike) -> float:
    """The message of an even all-to-all that takes as long as an uneven one.

    The busiest rank holds everyone up: max over ranks of max(sent, received), both without what a rank sends
    to itself, times n / (n - 1), since an even all-to-all of S bytes sends (n - 1) / n of them.

    Args:
        sent_bytes: [n, n]: row r is what rank r sends to each rank.

    Raises:
        InputError: Not a square matrix, or bytes below zero.
    """
    sent = np.array(sent_bytes, dtype=np.float64)
    if sent.ndim != 2 or sent.shape[0] != sent.shape[1] or not (np.isfinite(sent) & (sent >= 0)).all():
        raise InputError(
            f"bytes of an uneven all-to-all must be a square of numbers from zero, not {sent.shape}"
        )
    ranks = len(sent)
    if ranks == 1:
        return float(sent[0, 0])
    np.fill_diagonal(sent, 0.0)
    busiest = max(sent.sum(axis=0).max(), sent.sum(axis=1).max())
    return float(busiest * ranks / (ranks - 1))


def _check(table: CollectiveTable) -> None:
    codes, sizes = table.collectives, table.message_bytes
    if ((codes < 0) | (codes >= len(COLLECTIVES))).any():
        raise InputError(f"collective codes must be 0 … {len(COLLECTIVES) - 1}")
    bad = ~(np.isfinite(sizes) & (sizes >= 0))
    if bad.any():
        raise InputError(f"a message of {sizes[bad][0]:g} bytes; it must be a number from zero")
    if (table.spans < 1).any():
        raise InputError("a group's span has at least one member on every level")
    for name in ("concurrent_groups", "sharing"):
        values = getattr(table, name)
        if not (np.isfinite(values) & (values >= 1)).all():
            raise InputError(f"{name} must be at least 1")
