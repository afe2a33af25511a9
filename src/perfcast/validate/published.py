"""``validate published``: step times of published training runs against forecasts from their configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.cost.model import CostModel
from perfcast.errors import InputError, UnknownNameError
from perfcast.validate.published_cases import TABLE, PublishedCase, read_published_cases
from perfcast.validate.published_constants import Parameter, Scalable, parameters, scalable
from perfcast.validate.published_fit import Evidence, fit_constants
from perfcast.validate.published_forecast import PREDICTORS, forecast_seconds
from perfcast.validate.published_prices import build_works, price_works
from perfcast.validate.published_spread import Spread, fit_spread, spread_class, spread_of
from perfcast.validate.published_summary import (
    devices_label,
    era_of,
    kind_of,
    noise_floor,
    plan_label,
    rank_correlations,
)
from perfcast.validate.result import TableResult
from perfcast.validate.suite import DEFAULT_MAX_ROWS, Row, sample
from perfcast.validate.summary import Scores

GROUPS = (
    "all", "target", "usp", "source", "device", "devices", "plan", "kind", "source, plan", "source, devices",
    "size", "skipped",
)  # fmt: skip
Say = Callable[[str], None]
Track = Callable[[Sequence[Any], str], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class PricedSuite:
    """All cases with their operations priced once, whatever the constants.

    Attributes:
        runs: Aligned with the cases; None where there is no forecast.
        reasons: Why not; '' where there is one.
    """

    cases: Sequence[PublishedCase]
    runs: Sequence[Scalable | None]
    reasons: Sequence[str]

    @property
    def sources(self) -> list[str]:
        """Of runs that can be forecast and were measured, in alphabetical order."""
        return sorted({case.source for case, _ in self.judged()})

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Constants that these runs ask for."""
        runs = [run for run in self.runs if run is not None]
        return parameters(sorted({run.die for run in runs}), sorted({run.network for run in runs}))

    def judged(self) -> list[tuple[PublishedCase, Scalable]]:
        """Cases with a forecast and a measurement."""
        return [
            (case, run)
            for case, run in zip(self.cases, self.runs, strict=True)
            if run is not None and case.measured_seconds
        ]

    def evidence(self, without: str | None = None) -> Evidence:
        """What constants are chosen on."""
        rows = [(case, run) for case, run in self.judged() if case.source != without]
        return Evidence(
            [run for _, run in rows],
            np.array([case.measured_seconds for case, _ in rows], dtype=np.float64),
            [case.source for case, _ in rows],
            [str(case.configuration.get("id", case.row)) for case, _ in rows],
        )


def price_suite(
    cases: Sequence[PublishedCase], cost_model: CostModel, say: Say = lambda text: None
) -> PricedSuite:
    """Build every different step and price every different operation."""
    say(f"building steps of {len(cases)} runs")
    works = build_works(cases)
    say("pricing their operations")
    priced = price_works(cases, works, cost_model)
    runs = [scalable(run) if run is not None else None for run in priced]
    reasons = [
        case.skipped or ("" if run is not None else "unsupported plan")
        for case, run in zip(cases, runs, strict=True)
    ]
    return PricedSuite(cases, runs, reasons)


@dataclass(frozen=True)
class Chosen:
    """Constants for the runs of one source, or of all (source None), and the spread of forecasts."""

    source: str | None
    values: Mapping[str, float]
    spread: Spread


def choose_without_each(
    suite: PricedSuite, sources: Sequence[str], say: Say = lambda text: None
) -> list[Chosen]:
    """Constants of each source from all others, and spreads from the others' left-out forecasts."""
    every = suite.sources
    wanted = every if "each" in sources else list(dict.fromkeys(sources))
    for name in wanted:
        if name not in every:
            raise UnknownNameError("source", name, every, f"Known: {', '.join(every)}.")
    values: dict[str, dict[str, float]] = {}
    for name in every:
        say(f"choosing constants without {name}")
        values[name] = fit_constants(suite.evidence(without=name), suite.parameters, forecast_seconds)
    ratios = left_out_ratios(suite, values)
    return [Chosen(name, values[name], _spread(ratios, without=name)) for name in wanted]


Ratio = tuple[str, str, float]


def left_out_ratios(suite: PricedSuite, values: Mapping[str, Mapping[str, float]]) -> list[Ratio]:
    """(class, source, measured over forecast) of every judged run by the constants of the other sources."""
    return [
        (
            spread_class(case),
            case.source,
            (case.measured_seconds or 0.0) / forecast_seconds(run, values[case.source]),
        )
        for case, run in suite.judged()
    ]


def _spread(ratios: Sequence[Ratio], without: str | None = None) -> dict[str, tuple[float, float]]:
    rows = [row for row in ratios if row[1] != without]
    return fit_spread([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def choose_on_all(suite: PricedSuite, say: Say = lambda text: None) -> Chosen:
    """Constants of all sources together, with the spread of forecasts whose source was left out."""
    folds = {name: fit_constants(suite.evidence(without=name), suite.parameters, forecast_seconds)
             for name in suite.sources}  # fmt: skip
    say("choosing constants on all sources")
    values = fit_constants(suite.evidence(), suite.parameters, forecast_seconds)
    return Chosen(None, values, _spread(left_out_ratios(suite, folds)))


def score(
    suite: PricedSuite, chosen: Sequence[Chosen], predictors: Sequence[str], track: Track
) -> tuple[tuple[Row, ...], tuple[Scores, ...], dict[str, list[float | None]], list[PublishedCase]]:
    """Rows and columns of every case by every predictor; cases of sources that no ``chosen`` is for are left out."""
    by_source = {one.source: one for one in chosen}
    picked = [
        (case, run, reason, by_source.get(case.source) or by_source.get(None))
        for case, run, reason in zip(suite.cases, suite.runs, suite.reasons, strict=True)
        if case.source in by_source or None in by_source
    ]
    rows: list[Row] = []
    predicted: dict[str, list[float | None]] = {name: [] for name in predictors}
    for case, run, reason, constants in track(picked, "forecasting"):
        assert constants is not None
        for name in predictors:
            seconds = None if run is None else forecast_seconds(run, constants.values, name)
            predicted[name].append(seconds)
            rows.append(_row(case, run, reason, name, seconds, constants.spread))
    cases = [case for case, *_ in picked]
    scores = tuple(
        _scores(cases, [row for row in rows if row.predictor == name], name) for name in predictors
    )
    return tuple(rows), scores, predicted, cases


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
    def numbers(values: Iterable[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

    def words(values: Iterable[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
        return np.array(list(values), dtype=object)

    return Scores(
        predictor=predictor,
        labels={
            "source": words(case.source for case in cases),
            "device": words(case.catalog_device or "" for case in cases),
            "devices": words(map(devices_label, cases)),
            "plan": words(map(plan_label, cases)),
            "kind": words(map(kind_of, cases)),
            "target": words(map(_target, cases)),
            "usp": words("" if case.source == "usp" else "without usp" for case in cases),
            "skipped": words(row.skipped or "" for row in rows),
        },
        predicted=numbers(row.predicted_seconds for row in rows),
        low=numbers(row.predicted_seconds_low for row in rows),
        high=numbers(row.predicted_seconds_high for row in rows),
        measured=numbers(row.measured_seconds for row in rows),
        skipped=np.array([row.skipped is not None for row in rows]),
    )


def _target(case: PublishedCase) -> str:
    from perfcast.catalog.devices import load_device

    if case.catalog_device is None or not kind_of(case):
        return ""
    era = era_of(load_device(case.catalog_device).die)
    if not era:
        return f"{kind_of(case)} elsewhere"
    return f"{kind_of(case)} on A100, H100, Blackwell"


def validate_published(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    leave_out: Sequence[str] = (),
    constants: Chosen,
    cost_model: CostModel,
    say: Say = lambda text: None,
    track: Track = lambda items, words: items,
) -> TableResult:
    """Forecast every complete line and compare.

    Args:
        leave_out: Sources, or 'each': constants chosen without them, and only they are scored.
        constants: The shipped ones, for sources that are not left out.

    Raises:
        InputError: No table, an unknown predictor or source.
    """
    names = tuple(predictors) or PREDICTORS[:1]
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    every = read_published_cases(places)
    cases = sample(
        every,
        max_rows,
        lambda c: str(c.row),
        lambda c: (c.device, c.run.run.training.framework if c.run else ""),
    )
    suite = price_suite(cases, cost_model, say)
    if not suite.judged() and leave_out:
        raise InputError("no measured run that can be forecast: nothing to leave out")
    chosen = choose_without_each(suite, leave_out, say) if leave_out else [constants]
    rows, scores, predicted, scored = score(suite, chosen, names, track)
    more = [*rank_correlations(scored, predicted), *noise_floor(scored)]
    return TableResult(
        "published",
        _protocol(names, leave_out, len(every), len(cases)),
        (),
        GROUPS,
        more_rows=rows,
        more_scores=scores,
        more_summary=tuple(more),
    )


def _protocol(names: Sequence[str], leave_out: Sequence[str], total: int, taken: int) -> dict[str, Any]:
    from perfcast.validate.protocol import describe_sampling

    fitted = (
        f"constants of the step chosen on the other sources: left out {', '.join(leave_out)}, one source at a time"
        if leave_out
        else "constants of prediction/step_constants.toml, chosen on all sources of these tables together; for "
        "forecasts of runs that nothing was chosen on see --leave-out each"
    )
    return {
        "forecast": "from the configuration columns of each line alone; 'notes' is not read. What a table does "
        "not say is what the source's own scripts do, in words in each row's 'assumptions'",
        "measured": "the stated step time; for usp, and where none is stated, the tokens of a step over their rate",
        "fitted_on": dict.fromkeys(names, fitted),
        "left_out": ", ".join(leave_out) or "nothing",
        "kernels": "the learned cost model, which learned from none of these tables",
        "mlperf": "our reading of published logs: unverified, not official MLPerf results",
        "sampling": describe_sampling(total, taken),
    }
