"""Tournament rounds: pairs that are measured at the same time share no rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.core.arrays import Integers


def all_pairs(ranks: Sequence[int] | np.ndarray) -> Integers:
    """``(n (n − 1) / 2, 2)``: every pair once, in the rounds of a round-robin tournament.

    The circle method: one player stays, the others move on by one seat; n − 1 rounds of n / 2 pairs, and
    with an odd number one sits out each time.
    """
    seats = [*map(int, ranks)] + ([-1] if len(ranks) % 2 else [])
    found = []
    for _ in range(len(seats) - 1):
        found += [(a, b) for a, b in zip(seats, reversed(seats), strict=True)][: len(seats) // 2]
        seats = [seats[0], seats[-1], *seats[1:-1]]
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return pairs[(pairs >= 0).all(axis=1)]


def random_matching(ranks: np.ndarray, draw: np.random.Generator) -> Integers:
    """``(n // 2, 2)``: disjoint pairs at random; with an odd number one is left out."""
    order = draw.permutation(ranks)
    return order[: len(order) // 2 * 2].reshape(-1, 2)


def rounds_of(pairs: Integers) -> list[np.ndarray]:
    """Indices of the pairs, in rounds of disjoint ones: a greedy colouring of the edges.

    At most 2 d − 1 rounds if no rank has more than d pairs; a pair that stands twice has two rounds.
    """
    taken: dict[int, int] = {}  # rounds of each rank, as the bits of a number
    rounds: list[list[int]] = []
    for index, (first, second) in enumerate(pairs.tolist()):
        busy = taken.get(first, 0) | taken.get(second, 0)
        lowest_free = ~busy & (busy + 1)
        taken[first] = taken.get(first, 0) | lowest_free
        taken[second] = taken.get(second, 0) | lowest_free
        turn = lowest_free.bit_length() - 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(index)
    return [np.array(members, dtype=np.int64) for members in rounds]
