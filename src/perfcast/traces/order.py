"""An order of what waits for each other."""

from __future__ import annotations

from collections.abc import Sequence


def in_order(followers: Sequence[Sequence[int]]) -> list[int]:
    """Nodes of a graph, each behind all that it waits for, generation by generation.

    Nodes on a circle, and what waits for them, are left out.

    Args:
        followers: For each node those that wait for it; one that waits twice stands there twice.
    """
    left = [0] * len(followers)
    for own in followers:
        for follower in own:
            left[follower] += 1
    order = [node for node, count in enumerate(left) if not count]
    for node in order:  # grows on the way
        for follower in followers[node]:
            left[follower] -= 1
            if not left[follower]:
                order.append(follower)
    return order
