"""Whether forecasts put deployments in the right order: Spearman's rank correlation of their throughput.

Among the points of one model, system and lengths, each deployment at each load has a throughput per device:
concurrency over the time of a request, which follows from both times and the length of its answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

_LEAST_POINTS = 4


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """A point of a group.

    Attributes:
        group: Model, system and lengths.
        forecast, measured: Tokens per second and device.
    """

    group: str
    forecast: float
    measured: float


def tokens_per_second(
    clients: int, ttft: float, tpot: float, answer_tokens: float, num_devices: int
) -> float:
    """Of a closed loop, by Little's law, on each device."""
    return clients * answer_tokens / (ttft + (answer_tokens - 1.0) * tpot) / num_devices


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of ranks; equal values share the mean of their ranks.

    >>> spearman([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """
    ranks = [_ranks(np.asarray(values)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: Any) -> Any:
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[codes]


def rank_correlations(points: Sequence[RankedPoint]) -> Mapping[str, float]:
    """Of every group of at least four points, not all equal."""
    groups: dict[str, list[RankedPoint]] = defaultdict(list)
    for point in points:
        groups[point.group].append(point)
    return {
        name: spearman([each.forecast for each in of], [each.measured for each in of])
        for name, of in sorted(groups.items())
        if len(of) >= _LEAST_POINTS
        and len({each.forecast for each in of}) > 1
        and len({each.measured for each in of}) > 1
    }


def describe_ranks(points: Sequence[RankedPoint]) -> dict[str, float | int | None]:
    """The median over groups, and how many there are."""
    found = rank_correlations(points)
    return {
        "groups": len(found),
        "median_rank_correlation": median(found.values()) if found else None,
        "lowest_rank_correlation": min(found.values(), default=None),
    }
