"""Shortest paths between switches: all of them, split evenly at every switch, or one of them by a hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.arrays import Words, ints, mix, runs, sums_by, words_of
from perfcast.simulate.network.topology import Topology

#: Distance that is looked at first; farther pairs are looked for afterwards.
NEAR = 2


@dataclass(frozen=True, eq=False, slots=True)
class Trunks:
    """The way between two switches, for many pairs of them.

    Attributes:
        pairs, links, weights: Of each entry: pair, link, and the share of the pair's traffic on that link.
    """

    num_pairs: int
    pairs: Integers
    links: Integers
    weights: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """Arcs that are up, sorted by tail: those of switch ``i`` are ``starts[i]`` to ``starts[i + 1]``.

    Attributes:
        distance: Shape (targets, switches): costs from a switch to a target; -1: none, or not looked for.
    """

    starts: Integers
    head: Integers
    link: Integers
    cost: Integers
    distance: npt.NDArray[np.int32]

    def onward(self, at: Integers, target: Integers) -> tuple[Integers, Integers]:
        """Arcs that lead nearer to a target, for many places at once.

        Args:
            at: Switch of each place.
            target: Row of ``distance`` of each place.

        Returns:
            Place and arc of each way onward, in order of places.
        """
        counts = self.starts[at + 1] - self.starts[at]
        places = np.repeat(np.arange(len(at)), counts)
        arcs = runs(self.starts[at], counts)
        rows = target[places]
        beyond = self.distance[rows, at[places]] - self.cost[arcs]
        nearer = (self.distance[rows, self.head[arcs]] == beyond) & (beyond >= 0)
        return places[nearer], arcs[nearer]


def graph_towards(topology: Topology, sources: Integers, targets: Integers) -> tuple[Graph, Integers]:
    """The graph with the distance to each different target; and which row of those each target has.

    Raises:
        PlanError: A pair between which no path is left.
    """
    up = np.flatnonzero(topology.is_up[topology.arc_link])
    arcs = up[np.argsort(topology.tail[up], kind="stable")]
    tail, head, cost = topology.tail[arcs], topology.head[arcs], topology.cost[arcs]
    num_switches = len(topology.switch_names)
    starts = np.searchsorted(tail, np.arange(num_switches + 1)).astype(np.int64)
    different, rows = np.unique(targets, return_inverse=True)
    distance = _distances(_backward(tail, head, cost, num_switches), different, sources, rows)
    lost = distance[rows, sources] < 0
    if lost.any():
        first, second = (topology.switch_names[ends[lost][0]] for ends in (sources, targets))
        raise PlanError(
            f"no path is left between '{first}' and '{second}' of {topology.name}: too many links failed"
        )
    return Graph(starts, head, topology.arc_link[arcs], cost, distance), rows.astype(np.int64)


def _backward(tail: Integers, head: Integers, cost: Integers, num_switches: int) -> Any:
    """Sparse matrix of the costs of arcs, turned round; parallel arcs cost the same and are one."""
    from scipy.sparse import csr_matrix

    keys, firsts = np.unique(head * num_switches + tail, return_index=True)
    places = (keys // num_switches, keys % num_switches)
    return csr_matrix((cost[firsts], places), shape=(num_switches, num_switches))


def _distances(backward: Any, targets: Integers, sources: Integers, rows: Integers) -> npt.NDArray[np.int32]:
    """See ``Graph``; first what is near, then whole rows where that was not enough."""
    from scipy.sparse.csgraph import dijkstra

    distance = np.empty((len(targets), backward.shape[0]), dtype=np.int32)
    wanted = np.arange(len(targets))
    for limit in (float(NEAR), np.inf):
        found = dijkstra(backward, indices=targets[wanted], limit=limit)
        distance[wanted] = np.where(np.isinf(found), -1, found).astype(np.int32)
        wanted = np.unique(rows[distance[rows, sources] < 0])
        if not len(wanted):
            break
    return distance


def split_evenly(topology: Topology, sources: Integers, targets: Integers) -> Trunks:
    """All shortest paths of each pair of different switches; every switch splits evenly over its ways onward.

    Raises:
        PlanError: A pair between which no path is left.
    """
    if not len(sources):
        return Trunks(0, ints([]), ints([]), np.zeros(0))
    graph, rows = graph_towards(topology, sources, targets)
    num_switches = len(topology.switch_names)
    pair, at, share = np.arange(len(sources)), sources, np.ones(len(sources))
    found: list[tuple[Integers, Integers, Floats]] = []
    while len(pair):
        places, arcs = graph.onward(at, rows[pair])
        ways = np.bincount(places, minlength=len(pair))
        weights = (share / np.maximum(ways, 1))[places]
        found.append((pair[places], graph.link[arcs], weights))
        keys, inverse = np.unique(pair[places] * num_switches + graph.head[arcs], return_inverse=True)
        pair, at = keys // num_switches, keys % num_switches
        share = sums_by(inverse, weights, len(keys))
        going_on = at != targets[pair]
        pair, at, share = pair[going_on], at[going_on], share[going_on]
    pairs, links, weights = (np.concatenate([entry[i] for entry in found]) for i in range(3))
    return Trunks(len(sources), pairs, links, weights)


def choose_by_hash(topology: Topology, sources: Integers, targets: Integers, keys: Words) -> Trunks:
    """One shortest path of each pair: at every switch the way onward is the hash of the key and of the hop.

    Raises:
        PlanError: A pair between which no path is left.
    """
    if not len(sources):
        return Trunks(0, ints([]), ints([]), np.zeros(0))
    graph, rows = graph_towards(topology, sources, targets)
    pair, at, hop = np.arange(len(sources)), sources, 0
    pairs, links = [], []
    while len(pair):
        places, arcs = graph.onward(at, rows[pair])
        ways = np.bincount(places, minlength=len(pair))
        firsts = np.cumsum(ways) - ways
        words = mix(keys[pair] ^ mix(words_of(np.full(len(pair), hop))))
        chosen = arcs[firsts + (words % ways.astype(np.uint64)).astype(np.int64)]
        pairs.append(pair)
        links.append(graph.link[chosen])
        at, hop = graph.head[chosen], hop + 1
        going_on = at != targets[pair]
        pair, at = pair[going_on], at[going_on]
    flat = np.concatenate(pairs)
    return Trunks(len(sources), flat, np.concatenate(links), np.ones(len(flat)))
