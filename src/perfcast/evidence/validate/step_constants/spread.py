"""How far forecasts of steps err: quantiles of measured over forecast on sources that were left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from perfcast.evidence.validate.published.cases import PublishedCase
from perfcast.evidence.validate.published.summary import kind_of

Spread = Mapping[str, tuple[float, float]]

_TAILS = (0.05, 0.95)
#: Fewer measurements than this do not make a class of their own.
_LEAST = 20
#: Of a class that no measurement is known of.
_UNKNOWN = (0.5, 2.0)


def spread_class(case: PublishedCase) -> str:
    """'dense one node', 'dense several nodes', 'mixture of experts', 'frozen weights'."""
    if case.run is None:
        return ""
    if case.run.trains_adapters:
        return "frozen weights"
    if kind_of(case) != "dense":
        return kind_of(case)
    return "dense several nodes" if case.run.cluster.levels[-1].size > 1 else "dense one node"


def fit_spread(
    classes: Sequence[str], sources: Sequence[str], ratios: Sequence[float]
) -> dict[str, tuple[float, float]]:
    """5th and 95th percentile of measured over forecast, by class; '' is all classes together.

    A source counts as one, whatever its number of runs: quantiles are weighted.
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(classes):
        rows[name].append(index)
        rows[""].append(index)
    found = {}
    for name, members in rows.items():
        if len(members) < _LEAST and name:
            continue
        own = [sources[i] for i in members]
        weights = np.array([own.count(source) ** -0.5 for source in own])
        low, high = _weighted(np.array([ratios[i] for i in members]), weights)
        found[name] = (min(low, 1.0), max(high, 1.0))
    return found


def _weighted(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    order = np.argsort(values, kind="stable")
    share = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, high = np.interp(_TAILS, share, values[order])
    return float(low), float(high)


def spread_of(spread: Spread, name: str) -> tuple[float, float]:
    """Least and most of measured over forecast of a class; that of all where the class is not known."""
    return spread.get(name) or spread.get("") or _UNKNOWN
