"""What the published suite says beside error tables: ranks of plans, and how far repeats agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Floats
from perfcast.evidence.validate.published.cases import PublishedCase

#: Plans that a group needs at least for its ranks to say something.
LEAST_PLANS = 4
#: A100; H100 and H200; B200 and GB200; B300 and GB300.
_USUAL_DIES = frozenset({"GA100", "GH100", "GB100", "GB110"})
#: Columns that are equal for plans of one job.
SAME_JOB = (
    "model",
    "layers",
    "hidden",
    "seq_len",
    "device",
    "num_gpus",
    "global_batch",
    "precision",
)


def kind_of(case: PublishedCase) -> str:
    """'dense' or 'mixture of experts'; '' where no run is known."""
    if case.run is None:
        return ""
    return "mixture of experts" if case.run.run.model.experts else "dense"


def step_class(case: PublishedCase) -> str:
    """'dense one node', 'dense several nodes', 'mixture of experts', 'frozen weights'; '' of no known run."""
    if case.run is None:
        return ""
    if case.run.trains_adapters:
        return "frozen weights"
    if kind_of(case) != "dense":
        return kind_of(case)
    return "dense several nodes" if case.run.cluster.levels[-1].size > 1 else "dense one node"


def devices_label(case: PublishedCase) -> str:
    """Number of devices by powers of two: '9-16'."""
    count = case.configuration.get("num_gpus")
    if not isinstance(count, int | float) or count < 1:
        return ""
    high = 1 << max(0, int(np.ceil(np.log2(count))))
    return f"{high // 2 + 1}-{high}" if high > 2 else str(high)


def plan_label(case: PublishedCase) -> str:
    """Which axes are cut: 'dp', 'tp·pp', 'dp·tp·pp·zero1' …"""
    if case.run is None:
        return ""
    plan = case.run.run.plan
    degrees = {
        "dp": plan.data_parallel,
        "tp": plan.tensor_parallel,
        "pp": plan.pipeline_parallel,
        "cp": plan.context_parallel,
        "ep": plan.expert_parallel,
    }
    axes = [name for name, degree in degrees.items() if degree > 1]
    sharded = [f"zero{plan.zero_stage}"] if plan.zero_stage and plan.num_dense_replicas > 1 else []
    return "·".join([*axes, *sharded]) or "one device"


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Rank correlation; ties share their mean rank.

    >>> spearman([1, 2, 3], [10, 30, 20])
    0.5
    """
    ranks = [_ranks(np.asarray(values, dtype=np.float64)) for values in (predicted, measured)]
    if any(np.ptp(r) == 0 for r in ranks):
        return 0.0
    return round(float(np.corrcoef(ranks[0], ranks[1])[0, 1]), 12)


def _ranks(values: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values))
    different, codes = np.unique(values, return_inverse=True)
    means = np.bincount(codes, weights=ranks) / np.bincount(codes)
    shared: Floats = means[codes]
    return shared if len(different) < len(values) else ranks


def rank_correlations(
    cases: Sequence[PublishedCase], predicted: Mapping[str, Sequence[float | None]]
) -> list[dict[str, Any]]:
    """Rank correlation of plans within one model, cluster and batch: over all groups, and by source."""
    entries = []
    for predictor, seconds in predicted.items():
        groups = plans_by_job(cases, seconds)
        found: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        for (source, *_), plans in groups.items():
            if len(plans) < LEAST_PLANS:
                continue
            forecasts = [float(np.median([p for p, _ in rows])) for rows in plans.values()]
            measured = [float(np.median([m for _, m in rows])) for rows in plans.values()]
            found[source].append((spearman(forecasts, measured), len(plans)))
            found["all"].append(found[source][-1])
        for source, values in sorted(found.items(), key=lambda item: (item[0] != "all", item[0])):
            coefficients, sizes = np.array(values, dtype=np.float64).T
            entries.append(
                {
                    "predictor": predictor,
                    "group": "rank correlation",
                    "value": source,
                    "n": int(sizes.sum()),
                    "num_groups": len(values),
                    "median_rank_correlation": float(np.median(coefficients)),
                    "mean_rank_correlation": float(coefficients @ sizes / sizes.sum()),
                }
            )
    return entries


def plans_by_job(
    cases: Sequence[PublishedCase], seconds: Sequence[float | None]
) -> dict[tuple[Any, ...], dict[Any, list[tuple[float, float]]]]:
    """Of each job, of each plan: forecast and measured seconds of its lines that have both."""
    groups: defaultdict[tuple[Any, ...], dict[Any, list[tuple[float, float]]]] = defaultdict(dict)
    for case, forecast in zip(cases, seconds, strict=True):
        if forecast is None or not case.measured_seconds or case.run is None:
            continue
        key = (case.source, *(case.configuration.get(name) for name in SAME_JOB))
        groups[key].setdefault(case.run.run.plan, []).append((forecast, case.measured_seconds))
    return groups


def noise_floor(cases: Iterable[PublishedCase]) -> list[dict[str, Any]]:
    """How far repeats of one configuration lie from their median, by source."""
    repeats: defaultdict[Any, list[float]] = defaultdict(list)
    source: dict[Any, str] = {}
    for case in cases:
        if case.run is not None and case.measured_seconds:
            key = (case.source, case.run.run, case.run.cluster)
            repeats[key].append(case.measured_seconds)
            source[key] = case.source
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for key, seconds in repeats.items():
        if len(seconds) > 1:
            middle = float(np.median(seconds))
            errors[source[key]].extend(abs(middle / value - 1.0) for value in seconds)
            errors["all"].extend(abs(middle / value - 1.0) for value in seconds)
    return [
        {
            "predictor": "median of repeats",
            "group": "noise floor",
            "value": name,
            "n": len(values),
            "median_absolute_relative_error": float(np.median(values)),
            "p90_absolute_relative_error": float(np.quantile(values, 0.9)),
        }
        for name, values in sorted(errors.items(), key=lambda item: (item[0] != "all", item[0]))
    ]


def target_of(case: PublishedCase) -> str:
    """'dense on A100, H100, Blackwell', 'mixture of experts elsewhere' …; '' where no run is known."""
    kind = kind_of(case)
    if case.catalog_device is None or not kind:
        return ""
    is_usual = load_device(case.catalog_device).die in _USUAL_DIES
    return f"{kind} on A100, H100, Blackwell" if is_usual else f"{kind} elsewhere"
