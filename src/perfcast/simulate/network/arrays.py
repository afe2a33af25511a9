"""Types of arrays, sums by row, and a hash of 64 bits on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfcast.core.arrays import Floats, Integers

Words = npt.NDArray[np.uint64]


def ints(values: npt.ArrayLike) -> Integers:
    """As 64-bit integers."""
    return np.asarray(values, dtype=np.int64)


def mix(words: Words) -> Words:
    """A bijection of 64-bit words without visible pattern (the output function of SplitMix64).

    Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17.
    """
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def words_of(values: npt.ArrayLike) -> Words:
    """Integers as they are, floats by their bits."""
    array = np.asarray(values)
    wide = array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)
    return np.ascontiguousarray(wide).view(np.uint64)


def coarse(values: Floats) -> Words:
    """Floats by their bits, rounded to 40 of the mantissa: what differs by rounding alone is equal.

    A value at the edge between two steps may still fall on either side; then equals are told apart, which
    costs time and changes nothing.
    """
    return (words_of(values) + np.uint64(1 << 11)) >> np.uint64(12)


def sums_by(places: Integers, weights: Floats, count: int) -> Floats:
    """Sum of the weights at each place from 0 to ``count`` − 1."""
    return np.bincount(places, weights=weights, minlength=count).astype(np.float64)


def runs(starts: Integers, counts: Integers) -> Integers:
    """``start, start + 1 …`` of ``count`` numbers each, one run behind the other."""
    offsets: Integers = np.cumsum(counts) - counts
    steps: Integers = np.arange(int(counts.sum()), dtype=np.int64)
    return steps + np.repeat(starts - offsets, counts)


@dataclass(frozen=True, eq=False, slots=True)
class Incidence:
    """Which columns each row meets, and how much: entries in any order.

    Attributes:
        rows, columns: Of each entry.
        weights: Of each entry; the share of a row's traffic that passes the column.
    """

    num_rows: int
    num_columns: int
    rows: Integers
    columns: Integers
    weights: Floats

    def by_row(self) -> Incidence:
        """The same, sorted by row."""
        order = np.argsort(self.rows, kind="stable")
        return Incidence(
            self.num_rows, self.num_columns, self.rows[order], self.columns[order], self.weights[order]
        )

    def turned(self) -> Incidence:
        """Rows for columns, sorted by the new rows."""
        swapped = Incidence(self.num_columns, self.num_rows, self.columns, self.rows, self.weights)
        return swapped.by_row()

    def bounds(self) -> Integers:
        """Where each row begins, and the end; of entries that are sorted by row."""
        return np.searchsorted(self.rows, np.arange(self.num_rows + 1)).astype(np.int64)


def sums_of_words(words: Words, bounds: Integers) -> Words:
    """Sum of each run of words between bounds, modulo 2⁶⁴; zero for an empty run."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
    sums: Words = total[bounds[1:]] - total[bounds[:-1]]
    return sums
