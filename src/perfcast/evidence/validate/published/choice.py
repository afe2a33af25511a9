"""Which plan a forecast would have chosen among the measured ones, and what that would have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.evidence.validate.published.cases import PublishedCase
from perfcast.evidence.validate.published.summary import LEAST_PLANS, plans_by_job
from perfcast.published.searcher_3d.job import describe_cluster, describe_model
from perfcast.published.searcher_3d.search import price_plan
from perfcast.units import MILLI

#: How much slower than the best measured plan a good choice may be.
TOLERANCE = 0.15
#: Among so many of the first the best measured plan is looked for.
FIRST = 5
#: The source whose repeats of one run differ by a median of a quarter.
GRID, WITHOUT_GRID = "usp", "without usp"
SEARCHER, RANDOM = "searcher_3d", "any plan"
GROUP = "choice of plan"

Seconds = Sequence[float | None]


def choice_entries(cases: Sequence[PublishedCase], predicted: Mapping[str, Seconds]) -> list[dict[str, Any]]:
    """``score_choices`` of predictors, of the published searcher and of a plan drawn at random, on one set.

    Entries are of all groups and of those without the grid whose own repeats differ by a quarter. A case
    counts where every predictor forecasts it.
    """
    columns = {**predicted, SEARCHER: searcher_seconds(cases)}
    known = [all(column[at] is not None for column in columns.values()) for at in range(len(cases))]
    entries = []
    for value in ("all", WITHOUT_GRID):
        taken = [at for at, case in enumerate(cases) if known[at] and (value == "all" or case.source != GRID)]
        mine = [cases[at] for at in taken]
        scores = score_choices(mine, {name: [c[at] for at in taken] for name, c in columns.items()})
        entries += [{**entry, "value": value} for entry in (*scores, *_score_random(mine))]
    return entries


def score_choices(cases: Sequence[PublishedCase], predicted: Mapping[str, Seconds]) -> list[dict[str, Any]]:
    """For each predictor, over groups of plans of one job: how often its first plan is good.

    Args:
        predicted: Seconds of each case by the name of the predictor, or anything that orders plans alike;
            None where there is no forecast.
    """
    entries = []
    for name, seconds in predicted.items():
        losses, found = [], []
        for plans in group_plans(cases, seconds):
            forecasts, measured = (np.array(column) for column in zip(*plans, strict=True))
            order = np.argsort(forecasts, kind="stable")
            losses.append(float(measured[order[0]] / measured.min() - 1))
            found.append(int(measured.argmin()) in order[:FIRST])
        if losses:
            good = np.array(losses) <= TOLERANCE
            entries.append(
                _entry(name, len(losses), float(good.mean()), float(np.mean(found)), float(np.median(losses)))
            )
    return entries


def _score_random(cases: Sequence[PublishedCase]) -> list[dict[str, Any]]:
    """What plans in random order would score: the mean over all orders."""
    groups = [np.array([m for _, m in plans]) for plans in group_plans(cases, [0.0] * len(cases))]
    if not groups:
        return []
    good = [float(np.mean(measured / measured.min() - 1 <= TOLERANCE)) for measured in groups]
    found = [min(1.0, FIRST / len(measured)) for measured in groups]
    losses = [float(np.median(measured) / measured.min() - 1) for measured in groups]
    return [
        _entry(RANDOM, len(groups), float(np.mean(good)), float(np.mean(found)), float(np.median(losses)))
    ]


def _entry(name: str, count: int, good: float, found: float, loss: float) -> dict[str, Any]:
    return {
        "predictor": name,
        "group": GROUP,
        "value": "all",
        "n": count,
        "share_within_15_percent": good,
        "share_best_in_first_five": found,
        "median_loss": loss,
    }


def group_plans(cases: Sequence[PublishedCase], seconds: Seconds) -> list[list[tuple[float, float]]]:
    """Of each job with enough plans: forecast and measured seconds of every plan, medians over repeats."""
    return [
        [
            (float(np.median([f for f, _ in rows])), float(np.median([m for _, m in rows])))
            for rows in plans.values()
        ]
        for plans in plans_by_job(cases, seconds).values()
        if len(plans) >= LEAST_PLANS
    ]


def searcher_seconds(cases: Sequence[PublishedCase]) -> list[float | None]:
    """What the published searcher's formulas say of each case; it knows dp, tp and pp alone."""
    return [None if case.run is None or case.catalog_device is None else _searched(case) for case in cases]


def _searched(case: PublishedCase) -> float:
    assert case.run is not None
    run, cluster = case.run.run, case.run.cluster
    plan = run.plan
    return (
        MILLI
        * price_plan(
            describe_cluster(cluster, load_device(cluster.device), run.training.dtype),
            describe_model(run.model, plan.global_batch_size, run.sequence_length),
            (plan.data_parallel, plan.tensor_parallel, plan.pipeline_parallel),
        ).total_milliseconds
    )
