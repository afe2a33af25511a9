"""Latency and bandwidth of each axis, from the pairs that meet on it."""

from __future__ import annotations

import math

import numpy as np

from perfcast.measure.mesh_discovery.assign import groups_of, level_of_pairs
from perfcast.measure.mesh_discovery.faults import Hierarchy, crossing, usual_size
from perfcast.measure.mesh_discovery.found import DiscoveredAxis, unmeasured_axis
from perfcast.measure.mesh_discovery.matrix import PairSamples

_QUANTILE = 1.96  # of the normal distribution, for 95 %


def fit_axes(found: Hierarchy) -> tuple[DiscoveredAxis, ...]:
    """Outer axis first; pairs over slow links are left out."""
    known = found.samples.answered()
    known = known.select(~crossing(known, found.slow_links))
    alive = (found.labels[-1, known.pairs] >= 0).all(axis=1)
    known = known.select(alive)
    at = level_of_pairs(found.labels, known.pairs)
    axes = []
    for level in range(len(found.labels) - 1, -1, -1):
        name = f"axis_{len(found.labels) - 1 - level}"
        axes.append(_axis(name, _usual_children(found, level), known.select(at == level)))
    return tuple(axes)


def _axis(name: str, size: int, pairs: PairSamples) -> DiscoveredAxis:
    """Means over pairs, weighted by their measurements, with the interval of such a mean or of repeats."""
    if not len(pairs.pairs):
        return unmeasured_axis(name, size)
    weights = pairs.counts.astype(np.float64)
    mean = np.average(pairs.costs, axis=0, weights=weights)
    variance = np.average((pairs.costs - mean) ** 2, axis=0, weights=weights)
    effective = weights.sum() ** 2 / (weights**2).sum()
    noise = np.nan_to_num(pairs.repeat_variance()) / weights.mean()
    # Pairs that happen to agree, or a single one, are no surer than their repeats.
    of_mean = np.maximum(variance / max(1.0, effective - 1), noise / len(pairs.pairs))
    low, high = mean + np.multiply.outer((-_QUANTILE, _QUANTILE), np.sqrt(of_mean))
    return DiscoveredAxis(
        name=name,
        size=size,
        latency_seconds=math.exp(mean[0]),
        latency_low_seconds=math.exp(low[0]),
        latency_high_seconds=math.exp(high[0]),
        bytes_per_second=math.exp(-mean[1]),
        low_bytes_per_second=math.exp(-high[1]),
        high_bytes_per_second=math.exp(-low[1]),
        spread=float(np.sqrt(np.maximum(variance - noise, 0.0)).max()),
        num_pairs=len(pairs.pairs),
    )


def _usual_children(found: Hierarchy, level: int) -> int:
    """Children of most groups that a level divides: lower groups, or ranks on the innermost level."""
    groups = groups_of(found.labels[level])
    if level == 0:
        return usual_size(np.array([len(group) for group in groups]))
    return usual_size(np.array([len(np.unique(found.labels[level - 1, group])) for group in groups]))
