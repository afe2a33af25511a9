"""Error tables of whole-model steps: forward and backward apart, and two predictors on the same steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.summary import Scores, by_predictor, score_figures, score_rows

_REPEATS = 2000
_INTERVAL = (0.05, 0.95)


def score_steps(rows: Sequence[Row], distribution: Callable[[Row], str]) -> list[Scores]:
    """Whole steps by predictor, in columns.

    Args:
        distribution: Whether a row's device and model were known to the study's training.
    """

    def labels(mine: Sequence[Row]) -> dict[str, list[str]]:
        return {
            "model": [str(row.columns.get("model") or "") for row in mine],
            "variant": [str(row.columns.get("variant") or "eager") for row in mine],
            "distribution": [distribution(row) for row in mine],
        }

    return score_rows(rows, labels)


def score_parts(rows: Sequence[Row]) -> list[Scores]:
    """Forward and backward of training apart, by predictors that tell them; without intervals."""
    trains = [
        row
        for row in rows
        if row.columns["measured_backward_seconds"] and row.columns["predicted_backward_seconds"]
    ]
    return [
        score_figures(
            name,
            [
                (r.columns[f"predicted_{part}_seconds"], None, None, r.columns[f"measured_{part}_seconds"])
                for r in mine
            ],
            {"part": [part] * len(mine), "device": [row.device for row in mine]},
            (row.skipped is not None for row in mine),
        )
        for name, mine in by_predictor(trains).items()
        for part in ("forward", "backward")
    ]


# ---- two predictors on the same steps ----------------------------------------------------------------


def compare(
    rows: Sequence[Row], first: str, second: str, subsets: Mapping[str, Callable[[Row], bool]]
) -> list[dict[str, Any]]:
    """Mean difference of the absolute relative errors, first - second, of steps that both predicted.

    The 90 % interval is a bootstrap's over clusters of (device, model), drawn with a fixed seed. One entry
    per subset that holds such a step.
    """
    errors = {name: {(r.table, r.row): r for r in rows if r.predictor == name} for name in (first, second)}
    pairs = [
        (row, abs(row.relative_error), abs(other.relative_error))
        for key, row in errors[first].items()
        if (other := errors[second].get(key)) is not None
        and not row.skipped
        and not other.skipped
        and row.relative_error is not None
        and other.relative_error is not None
    ]
    entries = []
    for value, belongs in subsets.items():
        mine = [(f"{row.device} {row.columns.get('model')}", a, b) for row, a, b in pairs if belongs(row)]
        if mine:
            figures = _difference(mine)
            entries.append({"predictor": first, "group": f"paired with {second}", "value": value, **figures})
    return entries


def _difference(pairs: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for cluster, one, other in pairs:
        clusters[cluster].append(one - other)
    low, high = cluster_bootstrap(list(clusters.values()))
    first, second = (np.array([pair[i] for pair in pairs]) for i in (1, 2))
    return {
        "n": len(pairs),
        "skipped": 0,
        "mean_absolute_relative_error": float(first.mean()),
        "mean_absolute_relative_error_other": float(second.mean()),
        "mean_difference": float((first - second).mean()),
        "mean_difference_low": low,
        "mean_difference_high": high,
        "wins": int((first < second).sum()),
        "num_clusters": len(clusters),
    }


def cluster_bootstrap(clusters: Sequence[Sequence[float]]) -> tuple[float, float]:
    """90 % percentile interval of the mean of all values, whole clusters drawn with replacement."""
    sums = np.array([sum(values) for values in clusters])
    counts = np.array([len(values) for values in clusters])
    drawn = np.random.default_rng(0).integers(len(clusters), size=(_REPEATS, len(clusters)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, _INTERVAL)
    return float(low), float(high)
