"""``validate published``: steps of published training runs against forecasts from their configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import InputError, UnknownNameError
from perfcast.validate.protocol import describe_sampling
from perfcast.validate.published_cases import TABLE, PublishedCase, read_published_cases
from perfcast.validate.published_constants import Scalable
from perfcast.validate.published_forecast import PREDICTORS, forecast_seconds
from perfcast.validate.published_spread import Spread, spread_class, spread_of
from perfcast.validate.published_suite import (
    Chosen,
    PricedSuite,
    Say,
    choose_on_all,
    choose_without_each,
    price_suite,
    shipped_choice,
)
from perfcast.validate.published_summary import (
    devices_label,
    kind_of,
    noise_floor,
    plan_label,
    rank_correlations,
    target_of,
)
from perfcast.validate.published_write import constants_text
from perfcast.validate.result import TableResult
from perfcast.validate.suite import DEFAULT_MAX_ROWS, Row, sample
from perfcast.validate.summary import Scores

GROUPS = (
    "all", "target", "usp", "source", "device", "devices", "plan", "kind", "source, plan", "source, devices",
    "size", "skipped",
)  # fmt: skip
Track = Callable[[Sequence[Any], str], Iterable[Any]]
Words = np.ndarray[Any, np.dtype[np.object_]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def validate_published(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    leave_out: Sequence[str] = (),
    say: Say = lambda text: None,
    track: Track = lambda items, words: items,
) -> TableResult:
    """Forecast every complete line and compare.

    Args:
        leave_out: Sources, or 'each': constants chosen without them, and only they are scored.

    Raises:
        InputError: No table, an unknown predictor or source.
    """
    names = tuple(predictors) or PREDICTORS
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    every = read_published_cases(places)
    cases = sample(every, max_rows, _name, _stratum)
    suite = price_suite(cases, LearnedCost(), say)
    if leave_out and not suite.sources:
        raise InputError("no measured run that can be forecast: nothing to leave out")
    chosen = choose_without_each(suite, leave_out, say) if leave_out else [shipped_choice()]
    if "each" in leave_out:  # lines of sources without any forecast are listed with their reasons
        chosen.append(shipped_choice())
    scored = _picked(suite, chosen)
    rows = _rows(scored, names, track)
    columns = {name: [row for row in rows if row.predictor == name] for name in names}
    mine = [case for case, *_ in scored]
    predicted = {name: [row.predicted_seconds for row in column] for name, column in columns.items()}
    return TableResult(
        "published",
        _protocol(names, leave_out, len(every), len(cases)),
        (),
        GROUPS,
        more_rows=tuple(rows),
        more_scores=tuple(_scores(mine, column, name) for name, column in columns.items()),
        more_summary=(*rank_correlations(mine, predicted), *noise_floor(mine)),
    )


def write_constants(places: Sequence[Path], path: Path, say: Say = lambda text: None) -> None:
    """The file of constants anew, chosen on some tables."""
    suite = price_suite(read_published_cases(places), LearnedCost(), say)
    path.write_text(constants_text(choose_on_all(suite, say)), encoding="utf-8")


def _name(case: PublishedCase) -> str:
    return str(case.row)


def _stratum(case: PublishedCase) -> tuple[str, str]:
    return case.device, case.run.run.training.framework if case.run else ""


Picked = tuple[PublishedCase, "Scalable | None", str, Chosen]


def _picked(suite: PricedSuite, chosen: Sequence[Chosen]) -> list[Picked]:
    """Cases whose source some constants are for."""
    by_source = {one.source: one for one in chosen}
    found = []
    for case, run, reason in zip(suite.cases, suite.runs, suite.reasons, strict=True):
        constants = by_source.get(case.source) or by_source.get(None)
        if constants is not None:
            found.append((case, run, reason, constants))
    return found


def _rows(picked: Sequence[Picked], predictors: Sequence[str], track: Track) -> list[Row]:
    rows = []
    for case, run, reason, constants in track(picked, "forecasting"):
        for name in predictors:
            seconds = None if run is None else forecast_seconds(run, constants.values, name)
            rows.append(_row(case, run, reason, name, seconds, constants.spread))
    return rows


def _row(
    case: PublishedCase,
    run: Scalable | None,
    reason: str,
    predictor: str,
    seconds: float | None,
    spread: Spread,
) -> Row:
    low, high = spread_of(spread, spread_class(case))
    asked = case.run.run if case.run is not None else None
    columns: dict[str, Any] = {**case.configuration, "source_group": case.source}
    if case.run is not None and asked is not None:
        columns["cluster"] = case.run.cluster.name
        columns["assumptions"] = "; ".join(asked.assumptions)
        columns["kind"] = kind_of(case)
        if case.source == "mlperf":
            columns["standing"] = "unverified, not an official MLPerf result"
    return Row(
        suite="published",
        table=TABLE,
        row=case.row,
        device=case.device,
        catalog_device=case.catalog_device,
        predictor=predictor,
        columns=columns,
        operation="step",
        dtype=asked.training.dtype if asked else None,
        framework=asked.training.framework if asked else None,
        mode="train",
        predicted_seconds=seconds,
        predicted_seconds_low=None if seconds is None else seconds * low,
        predicted_seconds_high=None if seconds is None else seconds * high,
        measured_seconds=case.measured_seconds,
        provenance=run.run.provenance if run is not None else None,
        skipped=reason or None,
    )


def _scores(cases: Sequence[PublishedCase], rows: Sequence[Row], predictor: str) -> Scores:
    return Scores(
        predictor=predictor,
        labels={
            "source": _words(case.source for case in cases),
            "device": _words(case.catalog_device or "" for case in cases),
            "devices": _words(map(devices_label, cases)),
            "plan": _words(map(plan_label, cases)),
            "kind": _words(map(kind_of, cases)),
            "target": _words(map(target_of, cases)),
            "usp": _words("" if case.source == "usp" else "without usp" for case in cases),
            "skipped": _words(row.skipped or "" for row in rows),
        },
        predicted=_numbers(row.predicted_seconds for row in rows),
        low=_numbers(row.predicted_seconds_low for row in rows),
        high=_numbers(row.predicted_seconds_high for row in rows),
        measured=_numbers(row.measured_seconds for row in rows),
        skipped=np.array([row.skipped is not None for row in rows]),
    )


def _numbers(values: Iterable[float | None]) -> Numbers:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _words(values: Iterable[str]) -> Words:
    return np.array(list(values), dtype=object)


def _protocol(names: Sequence[str], leave_out: Sequence[str], total: int, taken: int) -> dict[str, Any]:
    fitted = (
        f"constants of the step chosen on the other sources: left out {', '.join(leave_out)}, one at a time"
        if leave_out
        else "constants of prediction/step_constants.toml, chosen on all sources of these tables together; "
        "for forecasts of runs that nothing was chosen on see --leave-out each"
    )
    return {
        "forecast": "from the configuration columns of each line alone; 'notes' is not read. What a table "
        "does not say is what the source's own scripts do, in words in each row's 'assumptions'",
        "measured": "the stated step time; for usp, and where none is stated, tokens over rate",
        "fitted_on": dict.fromkeys(names, fitted),
        "left_out": ", ".join(leave_out) or "nothing",
        "interval": "5th and 95th percentile of measured over forecast on left-out sources, by class of run; "
        "sources whose own repeats differ by more than 10 % do not count",
        "kernels": "the learned cost model, which learned from none of these tables",
        "mlperf": "our reading of published logs: unverified, not official MLPerf results",
        "sampling": describe_sampling(total, taken),
    }
