"""Groups of nodes that never form a cycle, whatever is merged.

A group is a set of nodes that will run as one. Merging two of them is allowed unless a third would have
to run between them. Ranks are a topological order of the groups, kept up to date by the algorithm of
Pearce and Kelly ("A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs", JEA 2007): a merge
looks only at groups whose ranks lie between the two, and permutes the ranks of those that it reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

#: A merge that has to look at more groups than this is not made: the two are far apart.
_MAX_REACHED = 512


class Groups:
    """A partition of nodes 0 … n-1, at first one group each.

    Args:
        predecessors: For each node the earlier nodes that it must follow.
    """

    def __init__(self, predecessors: Sequence[Sequence[int]]) -> None:
        count = len(predecessors)
        self.members: list[list[int]] = [[node] for node in range(count)]
        self._parent = list(range(count))
        self._rank = list(range(count))
        self._before = [list(nodes) for nodes in predecessors]
        self._after: list[list[int]] = [[] for _ in range(count)]
        for node, earlier in enumerate(predecessors):
            for other in earlier:
                self._after[other].append(node)

    def find(self, node: int) -> int:
        """Group of a node: the number of one of its members."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def in_order(self) -> list[int]:
        """All groups, each after those that it depends on."""
        roots = [node for node, parent in enumerate(self._parent) if node == parent]
        return sorted(roots, key=self._rank.__getitem__)

    def merge(self, a: int, b: int) -> int | None:
        """Merge two groups; the number of the union, or None if a group would have to run between them."""
        first, last = (a, b) if self._rank[a] < self._rank[b] else (b, a)
        later = self._reach(first, last, self._after)
        earlier = self._reach(last, first, self._before) if later is not None else None
        if later is None or earlier is None:
            return None
        if later or earlier:
            self._reorder(earlier, first, last, later)
        self._parent[last] = first
        for columns in (self.members, self._before, self._after):
            columns[first].extend(columns[last])
            columns[last] = []
        return first

    def _reorder(self, earlier: list[int], first: int, last: int, later: list[int]) -> None:
        """Ranks such that ``earlier`` come before the union, which takes the place of ``first``."""
        rank = self._rank
        later.sort(key=rank.__getitem__)
        earlier.sort(key=rank.__getitem__)
        slots = sorted(rank[group] for group in (*earlier, first, last, *later))
        for group, slot in zip((*earlier, first), slots, strict=False):
            rank[group] = slot
        for group, slot in zip(reversed(later), reversed(slots), strict=False):
            rank[group] = slot

    def _reach(self, start: int, end: int, edges: list[list[int]]) -> list[int] | None:
        """Groups between the two that ``start`` leads to; None if one of them leads on to ``end``."""
        rank, parent, find = self._rank, self._parent, self.find
        low, high = rank[start], rank[end]
        if low > high:
            low, high = high, low
        found = {start}
        queue = [start]
        for group in queue:
            for neighbour in edges[group]:
                other = neighbour if parent[neighbour] == neighbour else find(neighbour)
                if other == end:
                    if group != start:
                        return None
                elif low < rank[other] < high and other not in found:
                    found.add(other)
                    queue.append(other)
            if len(queue) > _MAX_REACHED:
                return None
        return queue[1:]
