"""Collectives → flows: one rule for each collective and algorithm.

``message_bytes`` follows ``perfcast.core.collective.message_bytes``; the first rank of a group is the root.
S: message bytes, n: ranks of the group, k: chunks of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import PlanError, UnknownNameError
from perfcast.simulate.network.arrays import ints
from perfcast.simulate.network.flows import ALL, FlowSet, in_turn, make_flows, together


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Who takes part.

    Attributes:
        ranks: Devices in the order of the algorithm, each once.
        unit_size: Devices of one unit of the network, for algorithms of two levels.
        num_chunks: Into how many messages a pipelined algorithm cuts its buffer.
    """

    ranks: Integers
    unit_size: int
    num_chunks: int

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    def units(self) -> Integers:
        """Ranks by unit, shape (units, ranks of each), in the order of the group.

        Raises:
            PlanError: A group that does not lie in its units evenly.
        """
        units, counts = np.unique(self.ranks // self.unit_size, return_counts=True)
        if len(set(counts.tolist())) != 1:
            raise PlanError(
                f"{self.size} ranks lie unevenly in {len(units)} units: use an algorithm of one level"
            )
        order = np.argsort(self.ranks // self.unit_size, kind="stable")
        return self.ranks[order].reshape(len(units), -1)


Rule = Callable[[Group, float], FlowSet]


def ring(rings: Integers, messages: int, each_bytes: float) -> FlowSet:
    """Every rank sends to the next of its ring, and passes on what it received a step ago.

    Args:
        rings: Shape (rings, ranks of each), or (ranks,).
        messages, each_bytes: That every rank sends, and the size of one.
    """
    rings = np.atleast_2d(rings)
    if rings.shape[1] == 1:
        return make_flows([], [], 0.0)
    numbers = np.arange(rings.size).reshape(rings.shape)
    waits = (numbers.ravel(), np.roll(numbers, 1, axis=1).ravel(), 1)
    return make_flows(rings.ravel(), np.roll(rings, -1, axis=1).ravel(), each_bytes, messages, waits=waits)


def ring_all_reduce(group: Group, message_bytes: float) -> FlowSet:
    """2 (n − 1) steps of S / n: a reduce-scatter, then an all-gather."""
    return ring(group.ranks, 2 * (group.size - 1), message_bytes / group.size)


def ring_half(group: Group, message_bytes: float) -> FlowSet:
    """All-gather or reduce-scatter: n − 1 steps of S / n."""
    return ring(group.ranks, group.size - 1, message_bytes / group.size)


def both_ways(rule: Rule) -> Rule:
    """Half of the buffer each way round."""

    def flows(group: Group, message_bytes: float) -> FlowSet:
        back = Group(group.ranks[::-1], group.unit_size, group.num_chunks)
        return together([rule(group, message_bytes / 2), rule(back, message_bytes / 2)])

    return flows


def through_all(rule: Rule) -> Rule:
    """As many rings as a unit has ranks, each with its part; each enters and leaves units by another rank.

    Every second unit is passed backwards, so that a ring goes from unit to unit between ranks of one place.
    """

    def flows(group: Group, message_bytes: float) -> FlowSet:
        units = group.units()
        count = units.shape[1]
        sets = []
        for number in range(count):
            turned = np.roll(units, -number, axis=1)
            turned[1::2] = turned[1::2, ::-1]
            part = Group(turned.ravel(), group.unit_size, group.num_chunks)
            sets.append(rule(part, message_bytes / count))
        return together(sets)

    return flows


def chain_down(group: Group, message_bytes: float) -> FlowSet:
    """Broadcast along the ranks in k chunks: rank i passes each on to i + 1."""
    numbers = np.arange(group.size - 1)
    waits = (numbers[1:], numbers[:-1], 0)
    each = message_bytes / group.num_chunks
    return make_flows(group.ranks[:-1], group.ranks[1:], each, group.num_chunks, waits=waits)


def chain_up(group: Group, message_bytes: float) -> FlowSet:
    """Reduce along the ranks in k chunks, from the last to the root."""
    back = Group(group.ranks[::-1], group.unit_size, group.num_chunks)
    return chain_down(back, message_bytes)


def binary_parents(count: int) -> Integers:
    """Parent of each of the places 0 … count − 1 in a binary tree in which every second place is a leaf.

    A place with lowest set bit b lies at height log2 b; its parent is the neighbour at the next height, on
    the side that has one. Place 0 is the root (parent -1) and has one child.
    """
    places = np.arange(count)
    bit = places & -places
    parents = (places ^ bit) | (bit << 1)
    parents = np.where(parents >= count, places ^ bit, parents)
    parents[0] = -1
    return parents


def tree_flows(ranks: Integers, parents: Integers, each_bytes: float, chunks: int, parts: str) -> FlowSet:
    """Up a tree (reduce), down it (broadcast), or both; a chunk goes on when all that it needs has arrived.

    Args:
        ranks: Device of each place.
        parents: Place of each place's parent; -1: the root.
        each_bytes, chunks: Of each message, and how many.
        parts: 'up', 'down' or 'both'.
    """
    child = np.flatnonzero(parents >= 0)
    parent = parents[child]
    edge_of = np.full(len(parents), -1)
    edge_of[child] = np.arange(len(child))
    inner = np.flatnonzero(parents[parent] >= 0)
    above = edge_of[parent[inner]]
    sources, destinations, waiting, awaited = [], [], [], []
    if parts != "down":
        sources, destinations = [ranks[child]], [ranks[parent]]
        waiting, awaited = [above], [inner]
    if parts != "up":
        offset = len(child) if parts == "both" else 0
        sources.append(ranks[parent])
        destinations.append(ranks[child])
        waiting.append(inner + offset)
        awaited.append(above + offset)
        if parts == "both":
            top = np.flatnonzero(parents[parent] < 0)
            waiting.append(np.repeat(top, len(top)) + offset)
            awaited.append(np.tile(top, len(top)))
    columns = [np.concatenate(part) for part in (sources, destinations, waiting, awaited)]
    return make_flows(columns[0], columns[1], each_bytes, chunks, waits=(columns[2], columns[3], 0))


def tree(parts: str) -> Rule:
    """One binary tree of the ranks, S in k chunks."""

    def flows(group: Group, message_bytes: float) -> FlowSet:
        parents = binary_parents(group.size)
        each = message_bytes / group.num_chunks
        return tree_flows(group.ranks, parents, each, group.num_chunks, parts)

    return flows


def barrier(group: Group, _: float) -> FlowSet:
    """Empty messages up a binary tree and down again."""
    return tree_flows(group.ranks, binary_parents(group.size), 0.0, 1, "both")


def double_tree_all_reduce(group: Group, message_bytes: float) -> FlowSet:
    """Two binary trees, each with half; who is a leaf in one is inside the other (but for the roots).

    Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35, 2009.
    """
    turned = group.ranks[::-1] if group.size % 2 == 0 else np.roll(group.ranks, -1)
    other = Group(turned, group.unit_size, group.num_chunks)
    half = tree("both")
    return together([half(group, message_bytes / 2), half(other, message_bytes / 2)])


def direct_all(group: Group, message_bytes: float) -> FlowSet:
    """S / n from every rank to every other at once: all-to-all, all-gather, reduce-scatter, and a dispatch of
    which it is not known how many copies go the same way."""
    count = group.size
    senders, receivers = np.nonzero(~np.eye(count, dtype=np.bool_))
    return make_flows(group.ranks[senders], group.ranks[receivers], message_bytes / count)


def pairwise_all_to_all(group: Group, message_bytes: float) -> FlowSet:
    """n − 1 steps of S / n: in step j rank i sends to i + j, when it has sent and received those before."""
    count = group.size
    steps, places = np.divmod(np.arange((count - 1) * count), count)
    to = (places + steps + 1) % count
    later = np.flatnonzero(steps > 0)
    sent = later - count
    received = sent - places[later] + (places[later] - steps[later]) % count
    waits = (np.tile(later, 2), np.concatenate([sent, received]), ALL)
    return make_flows(group.ranks[places], group.ranks[to], message_bytes / count, waits=waits)


def spokes(share: bool, inwards: bool) -> Rule:
    """The root and all others at once: S / n each (gather, scatter) or S each (reduce, broadcast)."""

    def flows(group: Group, message_bytes: float) -> FlowSet:
        others = group.ranks[1:]
        roots = np.repeat(group.ranks[:1], len(others))
        each = message_bytes / group.size if share else message_bytes
        return make_flows(others, roots, each) if inwards else make_flows(roots, others, each)

    return flows


def message(group: Group, message_bytes: float) -> FlowSet:
    """S from the first rank to the second.

    Raises:
        PlanError: Not two ranks.
    """
    if group.size != 2:
        raise PlanError(f"a message goes between two ranks, not {group.size}")
    return make_flows(group.ranks[:1], group.ranks[1:], message_bytes)


def recursive(parts: str) -> Rule:
    """Halving (S / 2, S / 4 … with partners n / 2, n / 4 … away: 'down'), doubling ('up'), or both."""

    def flows(group: Group, message_bytes: float) -> FlowSet:
        count = group.size
        if count & (count - 1):
            raise PlanError(f"recursive halving and doubling need a power of two of ranks, not {count}")
        distances = [1 << bit for bit in range(count.bit_length() - 1)]
        steps = {"down": distances[::-1], "up": distances, "both": distances[::-1] + distances}[parts]
        places = np.arange(count)
        return in_turn(
            [
                make_flows(group.ranks, group.ranks[places ^ distance], message_bytes * distance / count)
                for distance in steps
            ]
        )

    return flows


def hierarchical(*parts: str) -> Rule:
    """Rings inside the units and, for every place in a unit, a ring across units, in stages.

    Args:
        parts: In order, of 'inside' (all-gather or reduce-scatter of S over the m ranks of a unit), 'across'
            (the same of S / m over the units) and 'reduce across' (an all-reduce of S / m).
    """

    def flows(group: Group, message_bytes: float) -> FlowSet:
        units = group.units()
        num_units, per_unit = units.shape
        each_bytes = message_bytes / group.size
        stages = {
            "inside": (units, per_unit - 1, message_bytes / per_unit),
            "across": (units.T, num_units - 1, each_bytes),
            "reduce across": (units.T, 2 * (num_units - 1), each_bytes),
        }
        played = [ring(*stages[part]) for part in parts]
        return in_turn([stage for stage in played if stage.num_flows])

    return flows


RULES: dict[tuple[str, str], Rule] = {
    ("all_reduce", "ring"): ring_all_reduce,
    ("all_reduce", "two_way_ring"): both_ways(ring_all_reduce),
    ("all_reduce", "rings"): through_all(ring_all_reduce),
    ("all_reduce", "tree"): tree("both"),
    ("all_reduce", "double_tree"): double_tree_all_reduce,
    ("all_reduce", "recursive"): recursive("both"),
    ("all_reduce", "hierarchical"): hierarchical("inside", "reduce across", "inside"),
    ("all_gather", "ring"): ring_half,
    ("all_gather", "two_way_ring"): both_ways(ring_half),
    ("all_gather", "rings"): through_all(ring_half),
    ("all_gather", "recursive"): recursive("up"),
    ("all_gather", "hierarchical"): hierarchical("across", "inside"),
    ("all_gather", "direct"): direct_all,
    ("reduce_scatter", "ring"): ring_half,
    ("reduce_scatter", "two_way_ring"): both_ways(ring_half),
    ("reduce_scatter", "rings"): through_all(ring_half),
    ("reduce_scatter", "recursive"): recursive("down"),
    ("reduce_scatter", "hierarchical"): hierarchical("inside", "across"),
    ("reduce_scatter", "direct"): direct_all,
    ("all_to_all", "direct"): direct_all,
    ("all_to_all", "pairwise"): pairwise_all_to_all,
    ("dispatch", "direct"): direct_all,
    ("broadcast", "ring"): chain_down,
    ("broadcast", "tree"): tree("down"),
    ("broadcast", "direct"): spokes(share=False, inwards=False),
    ("reduce", "ring"): chain_up,
    ("reduce", "tree"): tree("up"),
    ("reduce", "direct"): spokes(share=False, inwards=True),
    ("gather_to_root", "direct"): spokes(share=True, inwards=True),
    ("scatter_from_root", "direct"): spokes(share=True, inwards=False),
    ("send", "direct"): message,
    ("receive", "direct"): message,
    ("barrier", "tree"): barrier,
}


def algorithms(collective: str) -> tuple[str, ...]:
    """Algorithms of a collective, in the order of the table.

    Raises:
        UnknownNameError: No such collective.
    """
    names = tuple(name for known, name in RULES if known == collective)
    if not names:
        known = tuple(dict.fromkeys(first for first, _ in RULES))
        raise UnknownNameError("collective", collective, known, f"Collectives: {', '.join(known)}.")
    return names


def collective_flows(collective: str, algorithm: str, message_bytes: float, group: Group) -> FlowSet:
    """The flows of a collective; none where one rank is alone.

    Raises:
        UnknownNameError: No such collective or algorithm.
        PlanError: A rank twice, or a group that the algorithm is not for.
    """
    names = algorithms(collective)
    if algorithm not in names:
        raise UnknownNameError(f"algorithm of {collective}", algorithm, names, f"Known: {', '.join(names)}.")
    if len(np.unique(group.ranks)) != group.size or not group.size:
        raise PlanError(f"a group needs ranks, each once; these are {group.ranks[:16].tolist()}")
    if group.num_chunks < 1:
        raise PlanError(f"a buffer is cut into at least one chunk, not {group.num_chunks}")
    if group.size == 1:
        return make_flows(ints([]), ints([]), 0.0)
    return RULES[collective, algorithm](group, message_bytes)
