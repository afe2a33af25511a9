"""Measurements of pairs of ranks: a sparse, symmetric matrix of latency and bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.errors import InputError
from perfcast.files.reading import read_json

#: Measures pairs ``(k, 2)`` once each; seconds of latency ``(k,)`` and bytes per second ``(k,)``, NaN for a
#: pair that does not answer. A pair may be asked for again, and may stand twice in one call.
Measure = Callable[[Integers], tuple[Floats, Floats]]

FORMAT = "perfcast-pair-samples"
_MOST_RANKS = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class PairSamples:
    """What is known of the pairs that were measured; the costs are logarithms, in which noise is even.

    Attributes:
        num_ranks: Ranks 0 … n − 1, whether or not a pair has them.
        pairs: ``(k, 2)``, the smaller rank first, sorted, each once.
        counts: ``(k,)`` answers; 0 for a pair that was asked and never answered.
        costs: ``(k, 2)`` means of log seconds of latency and log seconds per byte; NaN without an answer.
        scatter: ``(k, 2)`` sums of squared deviations from those means.
    """

    num_ranks: int
    pairs: Integers
    counts: Integers
    costs: Floats
    scatter: Floats

    @classmethod
    def build(
        cls, num_ranks: int, pairs: ArrayLike, latency_seconds: ArrayLike, bytes_per_second: ArrayLike
    ) -> PairSamples:
        """From single measurements in any order and direction, repeats included.

        Raises:
            InputError: Ranks that do not exist, a rank paired with itself, or a figure that is not positive.
        """
        ends = checked_pairs(pairs, num_ranks)
        costs = log_costs(latency_seconds, bytes_per_second, len(ends))
        keys, at = np.unique(ends[:, 0] * num_ranks + ends[:, 1], return_inverse=True)
        answered = ~np.isnan(costs).any(axis=1)
        counts = np.bincount(at[answered], minlength=len(keys)).astype(np.int64)
        means, scatter = np.full((len(keys), 2), np.nan), np.zeros((len(keys), 2))
        for axis in range(2):
            values = costs[answered, axis]
            sums = np.bincount(at[answered], values, minlength=len(keys))
            means[counts > 0, axis] = sums[counts > 0] / counts[counts > 0]
            deviations = (values - means[at[answered], axis]) ** 2
            scatter[:, axis] = np.bincount(at[answered], deviations, minlength=len(keys))
        return cls(num_ranks, np.stack((keys // num_ranks, keys % num_ranks), axis=1), counts, means, scatter)

    @property
    def num_measurements(self) -> int:
        """Answers, repeats included."""
        return int(self.counts.sum())

    def answered(self) -> PairSamples:
        """Without the pairs that never answered."""
        return self.select(self.counts > 0)

    def select(self, keep: Flags | Integers) -> PairSamples:
        """The pairs of a mask or of indices."""
        return PairSamples(
            self.num_ranks, self.pairs[keep], self.counts[keep], self.costs[keep], self.scatter[keep]
        )

    def repeat_variance(self) -> Floats:
        """``(2,)``: variance of one measurement around the mean of its pair; NaN if no pair has repeats."""
        freedom = np.maximum(self.counts - 1, 0).sum()
        return np.asarray(self.scatter.sum(axis=0) / freedom if freedom else np.full(2, np.nan))

    def to_json(self) -> dict[str, Any]:
        """Means as they are read back by ``from_json``: geometric, in seconds and bytes per second."""
        latency, rate = np.exp(self.costs[:, 0]), np.exp(-self.costs[:, 1])
        return {
            "format": FORMAT,
            "version": 1,
            "num_ranks": self.num_ranks,
            "first": self.pairs[:, 0].tolist(),
            "second": self.pairs[:, 1].tolist(),
            "count": self.counts.tolist(),
            "latency_seconds": [_short(x) for x in latency],
            "bytes_per_second": [_short(x) for x in rate],
            "scatter_latency": [_short(x) for x in self.scatter[:, 0]],
            "scatter_bandwidth": [_short(x) for x in self.scatter[:, 1]],
        }

    @classmethod
    def from_json(cls, record: Any) -> PairSamples:
        """The inverse of ``to_json``; ``count`` and the scatters may be missing (each pair once).

        Raises:
            InputError: Not such a record, columns of unequal length, ranks missing, or pairs twice.
        """
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InputError(f'not measurements of pairs: the file lacks "format": "{FORMAT}"')
        if record.get("version") != 1:
            raise InputError(
                f"pair samples of version {record.get('version')!r}; this program reads version 1"
            )
        num_ranks = record.get("num_ranks")
        if not isinstance(num_ranks, int) or isinstance(num_ranks, bool):
            raise InputError(f"pair samples: num_ranks is {num_ranks!r}, which is no whole number")
        first = _column(record, "first")
        second = _column(record, "second", len(first))
        if (first % 1 != 0).any() or (second % 1 != 0).any():
            raise InputError("pair samples: ranks must be whole numbers")
        latency = _column(record, "latency_seconds", len(first))
        rate = _column(record, "bytes_per_second", len(first))
        built = cls.build(num_ranks, np.stack((first, second), axis=1), latency, rate)
        if "count" not in record:
            return built
        if len(built.pairs) != len(first):
            raise InputError("pair samples: a pair stands twice in a file that counts its measurements")
        order = np.lexsort((np.maximum(first, second), np.minimum(first, second)))
        counts = _column(record, "count", len(first))[order]
        is_count = (counts >= 0) & (counts < 2**53) & (counts % 1 == 0)
        if not is_count.all() or ((counts > 0) != (built.counts > 0)).any():
            raise InputError("pair samples: counts must be whole numbers, 0 where there are no figures")
        scatter = np.stack([_column(record, f"scatter_{k}", len(first)) for k in ("latency", "bandwidth")], 1)
        return cls(num_ranks, built.pairs, counts.astype(np.int64), built.costs, scatter[order])


def load_samples(path: str | Path) -> PairSamples:
    """Measurements from a file: those alone, or the record of a discovery that holds them as ``samples``.

    Raises:
        InputError: No such file, not JSON (cut off in the middle, say), or not measurements of pairs.
    """
    record = read_json(path, what="the measurements of pairs")
    if isinstance(record, dict) and isinstance(record.get("samples"), dict):
        record = record["samples"]
    try:
        return PairSamples.from_json(record)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from error


def checked_pairs(pairs: ArrayLike, num_ranks: int) -> Integers:
    """As ``(k, 2)`` integers, the smaller rank first.

    Raises:
        InputError: Too few or too many ranks, ranks that do not exist, or a rank paired with itself.
    """
    if not 2 <= num_ranks <= _MOST_RANKS:
        raise InputError(f"a mesh of {num_ranks} ranks cannot be discovered; from 2 to {_MOST_RANKS} can")
    given = np.asarray(pairs)
    if given.size and (given.min() < 0 or given.max() >= num_ranks):
        wrong = given.max() if given.max() >= num_ranks else given.min()
        raise InputError(
            f"rank {wrong:.0f} does not exist: there are {num_ranks} ranks, from 0 to {num_ranks - 1}"
        )
    ends = given.astype(np.int64).reshape(-1, 2)
    if (ends[:, 0] == ends[:, 1]).any():
        rank = ends[ends[:, 0] == ends[:, 1]][0, 0]
        raise InputError(f"rank {rank} is paired with itself; a pair needs two different ranks")
    return np.sort(ends, axis=1)


def log_costs(latency_seconds: ArrayLike, bytes_per_second: ArrayLike, num_pairs: int) -> Floats:
    """``(k, 2)``: log seconds of latency and log seconds per byte; NaN in both where either is.

    Raises:
        InputError: Another number of figures than of pairs, or a figure that is not positive and finite.
    """
    latency = np.asarray(latency_seconds, dtype=np.float64)
    rate = np.asarray(bytes_per_second, dtype=np.float64)
    if latency.shape != (num_pairs,) or rate.shape != (num_pairs,):
        raise InputError(f"{num_pairs} pairs came with {latency.size} latencies and {rate.size} bandwidths")
    for name, values in (("latency", latency), ("bandwidth", rate)):
        wrong = ~np.isnan(values) & ~((values > 0) & np.isfinite(values))
        if wrong.any():
            raise InputError(f"a {name} of {values[wrong][0]:g} is impossible; leave it out, or null")
    costs = np.stack((np.log(latency), -np.log(rate)), axis=1)
    costs[np.isnan(costs).any(axis=1)] = np.nan
    return costs


def _column(record: dict[str, Any], name: str, length: int | None = None) -> Floats:
    values = record.get(name)
    if not isinstance(values, list) or not all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values
    ):
        raise InputError(f"pair samples: '{name}' is missing or is not a list of numbers")
    if length is not None and len(values) != length:
        raise InputError(f"pair samples: '{name}' has {len(values)} entries, 'first' has {length}")
    column = np.array(values, dtype=np.float64)
    if name in ("first", "second", "count") and np.isnan(column).any():
        raise InputError(f"pair samples: '{name}' holds null")
    return column


def _short(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.5g}")
