"""Even samples by a fixed hash: of millions of rows in columns, or of items one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Integers, Objects
from perfcast.evidence.dataset.words import encode

Keys = NDArray[np.uint64]
Item = TypeVar("Item")

DEFAULT_MAX_ROWS = 100_000


def sample(
    items: Iterable[Item],
    max_rows: int,
    name_of: Callable[[Item], str],
    stratum_of: Callable[[Item], Hashable] = lambda item: None,
) -> list[Item]:
    """At most ``max_rows`` items, as ``draw_evenly`` draws them by a hash of their names; order is kept."""
    everything = list(items)
    codes: dict[Hashable, int] = {}
    strata = np.array([codes.setdefault(stratum_of(item), len(codes)) for item in everything], dtype=np.int64)
    keys = np.array([_first_bytes(name_of(item), "big") for item in everything], dtype=np.uint64)
    return [everything[i] for i in draw_evenly(strata, keys, max_rows).tolist()]


def hash_rows(table: str, rows: Integers, words: Objects) -> Keys:
    """A fixed pseudo-random number for each (table, row, word), shape [n].

    SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014) of the row's
    number, started from SHA-256 of the table's name and of the word.
    """
    different, codes = encode(words)
    starts = np.array([_first_bytes(f"{table} {word}", "little") for word in different], dtype=np.uint64)
    return _mix(starts[codes] + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def draw_evenly(strata: Integers, keys: Keys, most: int) -> Integers:
    """At most ``most`` of n rows, evenly over strata; indices in ascending order.

    The smaller strata are taken whole, and what they leave goes to the larger ones; within a stratum the
    smallest keys come first. To draw from a draw that took at least as many gives the same rows.
    """
    if len(strata) <= most:
        return np.arange(len(strata))
    different, codes = np.unique(strata, return_inverse=True)
    counts = np.bincount(codes, minlength=len(different))
    order = np.lexsort((keys, codes))
    first = np.cumsum(counts) - counts
    taken = shares(counts, most, np.argsort(keys[order[first]], kind="stable"))
    rank = np.arange(len(order)) - np.repeat(first, counts)
    return np.sort(order[rank < taken[codes[order]]])


def shares(counts: Integers, most: int, order: Integers) -> Integers:
    """How many rows of each stratum are taken: all of the small ones, equally many of the others.

    Args:
        order: Of the strata; the first ones get one row more where ``most`` cannot be shared evenly.
    """
    low, high = 0, int(counts.max(initial=0))
    while low < high:  # the highest level that all strata can be filled to
        level = (low + high + 1) // 2
        low, high = (level, high) if np.minimum(counts, level).sum() <= most else (low, level - 1)
    taken = np.minimum(counts, low)
    larger = order[counts[order] > low]
    taken[larger[: most - int(taken.sum())]] += 1
    return taken


def _first_bytes(text: str, order: Literal["big", "little"]) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], order)


def _mix(state: Keys) -> Keys:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
