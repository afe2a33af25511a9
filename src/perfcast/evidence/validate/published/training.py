"""Rows of published training runs: each line's forecast by each predictor, beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import InputError
from perfcast.evidence.validate.published.cases import TABLE, PublishedCase
from perfcast.evidence.validate.published.choice import choice_entries
from perfcast.evidence.validate.published.forecast import Track, forecast_parts, forecast_seconds
from perfcast.evidence.validate.published.priced import (
    Chosen,
    PricedSuite,
    Say,
    choose_without_each,
    price_suite,
    shipped_choice,
)
from perfcast.evidence.validate.published.summary import (
    devices_label,
    kind_of,
    noise_floor,
    plan_label,
    rank_correlations,
    step_class,
    target_of,
)
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.step_constants.scales import Scalable
from perfcast.evidence.validate.summary import Scores, by_predictor, score_rows
from perfcast.prediction.step.interval import training_interval


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What the suite found out about training runs.

    Attributes:
        scores: One for each predictor.
        more_summary: Ranks of plans, what the first plan costs, and how far repeats agree.
    """

    rows: tuple[Row, ...]
    scores: tuple[Scores, ...]
    more_summary: tuple[dict[str, Any], ...]


@dataclass(frozen=True, eq=False)
class _Judged:
    """A case, its priced run or why there is none, and the constants that it is forecast with."""

    case: PublishedCase
    run: Scalable | None
    reason: str
    chosen: Chosen


def forecast_training(
    cases: Sequence[PublishedCase],
    predictors: Sequence[str],
    leave_out: Sequence[str],
    say: Say,
    track: Track,
) -> TrainingResult:
    """Forecast every case.

    Args:
        leave_out: Sources, or 'each': constants chosen without them, and only they are scored.

    Raises:
        InputError: An unknown source; none that could be left out.
    """
    suite = price_suite(cases, LearnedCost(), say)
    if leave_out and not suite.sources:
        raise InputError("no measured run that can be forecast: nothing to leave out")
    chosen = choose_without_each(suite, leave_out, say) if leave_out else [shipped_choice()]
    if "each" in leave_out:  # lines of sources without any forecast are listed with their reasons
        chosen.append(shipped_choice())
    judged = _judged(suite, chosen)
    rows = [_row(one, name) for one in track(judged, "forecasting training runs") for name in predictors]
    mine = [one.case for one in judged]
    predicted = {
        name: [row.predicted_seconds for row in column] for name, column in by_predictor(rows).items()
    }
    return TrainingResult(
        tuple(rows),
        tuple(score_rows(rows, lambda same: _labels(mine))),
        (*rank_correlations(mine, predicted), *choice_entries(mine, predicted), *noise_floor(mine)),
    )


def _judged(suite: PricedSuite, chosen: Sequence[Chosen]) -> list[_Judged]:
    """Cases whose source some constants are for."""
    by_source = {one.source: one for one in chosen}
    found = []
    for case, run, reason in zip(suite.cases, suite.runs, suite.reasons, strict=True):
        constants = by_source.get(case.source) or by_source.get(None)
        if constants is not None:
            found.append(_Judged(case, run, reason, constants))
    return found


def _row(one: _Judged, predictor: str) -> Row:
    case, run = one.case, one.run
    seconds, low, high = None, None, None
    if run is not None:
        seconds = forecast_seconds(run, one.chosen.values, predictor)
        low, high = _interval(run, one.chosen, seconds)
    asked = case.run.run if case.run is not None else None
    return Row(
        suite="published",
        table=TABLE,
        row=case.row,
        device=case.device,
        catalog_device=case.catalog_device,
        predictor=predictor,
        columns=_columns(case),
        operation="step",
        dtype=asked.training.dtype if asked else None,
        framework=asked.training.framework if asked else None,
        mode="train",
        predicted_seconds=seconds,
        predicted_seconds_low=low,
        predicted_seconds_high=high,
        measured_seconds=case.measured_seconds,
        provenance=run.run.provenance if run is not None else None,
        skipped=one.reason or None,
    )


def _interval(run: Scalable, chosen: Chosen, seconds: float) -> tuple[float, float]:
    """As wide relative to the forecast as that of the formula."""
    by_formula, parts = forecast_parts(run, chosen.values)
    stalled = chosen.widths.stall_seconds(run.run.training.framework, run.run.work.plan) / by_formula
    low, high = training_interval(parts, chosen.widths, stalled)
    return low * seconds, high * seconds


def _columns(case: PublishedCase) -> dict[str, Any]:
    """The line's configuration, and how it was read."""
    columns: dict[str, Any] = {**case.configuration, "source_group": case.source}
    if case.run is not None:
        columns["cluster"] = case.run.cluster.name
        columns["assumptions"] = "; ".join(case.run.run.assumptions)
        columns["kind"] = kind_of(case)
        if case.source == "mlperf":
            columns["standing"] = "unverified, not an official MLPerf result"
    return columns


def _labels(cases: Sequence[PublishedCase]) -> dict[str, list[str]]:
    return {
        "source": [case.source for case in cases],
        "device": [case.catalog_device or "" for case in cases],
        "devices": list(map(devices_label, cases)),
        "plan": list(map(plan_label, cases)),
        "kind": list(map(kind_of, cases)),
        "target": list(map(target_of, cases)),
        "usp": ["" if case.source == "usp" else "without usp" for case in cases],
        "interval": list(map(step_class, cases)),
    }
