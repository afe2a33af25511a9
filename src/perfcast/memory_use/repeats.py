"""Micro-batches of a graph that ask for and drop the same memory, and the graph with fewer of them.

A step that accumulates gradients runs its micro-batches one after another, and all but the first and the last
touch memory alike. Two of them are alike if at every node they run the same operation, make storages of the
same sizes and drop the same storages in the same order, where a storage is known by the micro-batch that made
it, counted back from the one that drops it, and by its place among those made there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.graph import Graph, Phase
from perfcast.core.tensor import Storage

#: Of a folded graph's micro-batches, those kept at the end: what they made is dropped after the last.
_NUM_KEPT_AT_END = 2


@dataclass(frozen=True, slots=True)
class Repeats:
    """Equal micro-batches in a row: ``count`` of ``length`` nodes each, from node ``start`` on."""

    start: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """The first node behind them."""
        return self.start + self.count * self.length


def find_repeats(graph: Graph) -> Repeats | None:
    """The longest row of equal micro-batches around the middle one; None with fewer than two of them."""
    is_forward = np.array([node.phase is Phase.FORWARD for node in graph.nodes], dtype=bool)
    starts = np.flatnonzero(is_forward & ~np.concatenate([[False], is_forward[:-1]]))
    if len(starts) < _NUM_KEPT_AT_END + 2:
        return None
    units = _Units(graph, starts)
    middle = len(starts) // 2
    first = last = middle
    while first > 0 and units.are_equal(first - 1, middle):
        first -= 1
    while last + 2 < len(starts) and units.are_equal(last + 1, middle):
        last += 1
    if first == last:
        return None
    return Repeats(int(starts[first]), int(starts[middle + 1] - starts[middle]), last + 1 - first)


def fold(graph: Graph, repeats: Repeats, count: int) -> Graph | None:
    """The graph with ``count`` of the equal micro-batches; None where storages span too many.

    Nodes keep the numbers of their tensors, which are left out: the result tells what is made and dropped.
    """
    length, removed = repeats.length, (repeats.count - count) * repeats.length
    cut = repeats.start + (count - _NUM_KEPT_AT_END) * length
    end = repeats.end - removed
    kept = [s for s in graph.storages if not cut <= s.created_by < cut + removed]
    if any(
        s.created_by < cut and s.freed_after is not None and end <= s.freed_after < cut + removed
        for s in kept
    ):
        return None
    storages = tuple([_moved(s, cut, removed) for s in kept])
    nodes = graph.nodes[:cut] + graph.nodes[cut + removed :]
    folded = replace(graph, nodes=nodes, storages=storages, tensors=())
    found = find_repeats(folded)
    is_same = found is not None and (found.start, found.length, found.end) == (repeats.start, length, end)
    return folded if is_same else None


def _moved(storage: Storage, cut: int, removed: int) -> Storage:
    """A storage when nodes from ``cut`` on are left out; one that lives into them plays a later part."""
    created, freed = storage.created_by, storage.freed_after
    if created >= cut + removed:
        return replace(
            storage, created_by=created - removed, freed_after=None if freed is None else freed - removed
        )
    if freed is None or freed < cut:
        return storage
    return replace(storage, freed_after=freed - removed if freed >= cut + removed else freed)


class _Units:
    """What each micro-batch runs, makes and drops, as columns in which equal micro-batches are equal."""

    def __init__(self, graph: Graph, starts: Integers) -> None:
        phases = {phase: number for number, phase in enumerate(Phase)}
        self._bounds = np.append(starts, len(graph.nodes))
        self._run = np.array(
            [(node.operation, phases[node.phase], node.stream) for node in graph.nodes], dtype=np.int64
        )
        held = [s for s in graph.storages if s.num_bytes]
        created = np.array([s.created_by for s in held], dtype=np.int64)
        freed = np.array([-1 if s.freed_after is None else s.freed_after for s in held], dtype=np.int64)
        sizes = np.array([s.num_bytes for s in held], dtype=np.int64)
        by_maker = np.argsort(created, kind="stable")
        self._made_at, self._sizes = created[by_maker], sizes[by_maker]
        maker = np.searchsorted(starts, created, side="right") - 1
        first_made = np.searchsorted(self._made_at, self._bounds[:-1])
        places = np.empty(len(held), dtype=np.int64)
        places[by_maker] = np.arange(len(held))
        order = np.argsort(freed, kind="stable")
        self._dropped_at = freed[order]
        self._maker = maker[order]
        self._place = (places - np.where(maker >= 0, first_made[np.maximum(maker, 0)], 0))[order]

    def are_equal(self, one: int, other: int) -> bool:
        """Whether two micro-batches run, make and drop the same."""
        columns = zip(self._columns(one), self._columns(other), strict=True)
        return all(np.array_equal(a, b) for a, b in columns)

    def _columns(self, unit: int) -> tuple[Integers, ...]:
        start, end = self._bounds[unit], self._bounds[unit + 1]
        made = slice(*np.searchsorted(self._made_at, (start, end)))
        dropped = slice(*np.searchsorted(self._dropped_at, (start, end)))
        return (
            self._run[start:end],
            self._made_at[made] - start,
            self._sizes[made],
            self._dropped_at[dropped] - start,
            unit - self._maker[dropped],
            self._place[dropped],
        )
