"""From pairs and levels to groups: which ranks share a group on each level.

A hierarchy is an array of labels ``(L, n)``, inner level first: ranks with one label in row l meet on level l
or below; the last row holds one label. Ranks that never answered have the label −1.

Each level is a correlation clustering: every measured pair pulls its two ranks together or pushes them apart
by the log odds that it meets below the level; groups are merged by the strongest sum, greedily, until no two
attract each other (greedy additive edge contraction: M. Keuper et al., Efficient decomposition of image and
mesh graphs by lifted multicuts, 2015). One wrong pair cannot join two groups that many pairs keep apart.
"""

from __future__ import annotations

import heapq

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.measure.mesh_discovery.levels import Levels
from perfcast.measure.mesh_discovery.matrix import PairSamples


def assign_ranks(samples: PairSamples, levels: Levels) -> Integers:
    """``(L, n)`` labels of the groups of every level, from all pairs that answered."""
    answered = samples.answered()
    alive = np.zeros(samples.num_ranks, dtype=bool)
    alive[answered.pairs.ravel()] = True
    labels = np.full((len(levels), samples.num_ranks), -1, dtype=np.int64)
    labels[-1, alive] = 0
    for level in range(len(levels) - 1, 0, -1):
        parents = labels[level]
        inside = parents[answered.pairs[:, 0]] == parents[answered.pairs[:, 1]]
        members = answered.select(inside)
        odds = levels.odds_below(level, members.costs, members.counts)
        joined = cluster_by_odds(samples.num_ranks, members.pairs, odds)
        labels[level - 1, alive] = joined[alive]
    return labels


def cluster_by_odds(num_ranks: int, pairs: Integers, odds: Floats) -> Integers:
    """``(n,)`` labels of groups, from pairs that attract (positive odds) or repel."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    pull = pairs[odds > 0]
    graph = coo_matrix((np.ones(len(pull)), (pull[:, 0], pull[:, 1])), shape=(num_ranks, num_ranks))
    labels = connected_components(graph, directed=False)[1].astype(np.int64)
    inside = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    disputed = np.unique(labels[pairs[inside & (odds <= 0), 0]])
    for label in disputed:
        mine = inside & (labels[pairs[:, 0]] == label)
        ranks, at = np.unique(pairs[mine], return_inverse=True)
        parts = _contracted(len(ranks), at.reshape(-1, 2), odds[mine])
        labels[ranks] = labels.max() + 1 + parts
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _contracted(num_nodes: int, pairs: Integers, odds: Floats) -> Integers:
    """Merge the two groups with the greatest positive sum of odds, until there are none."""
    between: list[dict[int, float]] = [{} for _ in range(num_nodes)]
    for (first, second), value in zip(pairs.tolist(), odds.tolist(), strict=True):
        between[first][second] = between[second][first] = between[first].get(second, 0.0) + value
    heap = [
        (-value, a, b)
        for a, others in enumerate(between)
        for b, value in others.items()
        if a < b and value > 0
    ]
    heapq.heapify(heap)
    parent = list(range(num_nodes))
    while heap:
        value, a, b = heapq.heappop(heap)
        if between[a].get(b) != -value:
            continue  # One of the two has been merged since.
        if len(between[a]) < len(between[b]):
            a, b = b, a
        parent[b] = a
        del between[a][b]
        for other, pull in between[b].items():
            if other == a:
                continue
            total = between[a].get(other, 0.0) + pull
            between[a][other] = between[other][a] = total
            del between[other][b]
            if total > 0:
                heapq.heappush(heap, (-total, min(a, other), max(a, other)))
        between[b] = {}
    return np.array([_root(parent, node) for node in range(num_nodes)], dtype=np.int64)


def _root(parent: list[int], node: int) -> int:
    while parent[node] != node:
        node = parent[node]
    return node


def level_of_pairs(labels: Integers, pairs: Integers) -> Integers:
    """``(k,)``: the level on which the two ranks of each pair meet."""
    same = labels[:, pairs[:, 0]] == labels[:, pairs[:, 1]]
    return np.asarray(same.argmax(axis=0), dtype=np.int64)


def groups_of(row: Integers) -> list[Integers]:
    """Members of each group of one level, ordered by their lowest rank; ranks labelled −1 are left out."""
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    starts = np.flatnonzero(np.diff(row[order])) + 1
    return sorted(np.split(order, starts), key=lambda members: int(members[0])) if len(order) else []
