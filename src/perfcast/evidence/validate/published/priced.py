"""All published runs with their operations priced, and the constants that are chosen on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.cost.model import CostModel
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.published.cases import PublishedCase
from perfcast.evidence.validate.published.forecast import forecast_parts, forecast_seconds
from perfcast.evidence.validate.published.prices import build_works, price_works
from perfcast.evidence.validate.published.summary import noise_floor
from perfcast.evidence.validate.step_constants.fit import Evidence, Fitter
from perfcast.evidence.validate.step_constants.scales import (
    Parameter,
    Scalable,
    parameters,
    scalable,
    shipped_values,
)
from perfcast.evidence.validate.step_constants.widths import WidthRow, fit_widths
from perfcast.prediction.step.interval import StepWidths, load_step_widths

Say = Callable[[str], None]
#: Of repeats about their median.
NOISY = 0.1


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

    @property
    def noisy_sources(self) -> frozenset[str]:
        """Sources whose repeats of one run differ by a median of more than ``NOISY``."""
        floors = noise_floor(self.cases)
        key = "median_absolute_relative_error"
        return frozenset(floor["value"] for floor in floors if floor[key] > NOISY) - {"all"}

    def judged(self) -> list[tuple[PublishedCase, Scalable]]:
        """Cases with a forecast and a measurement."""
        return [
            (case, run)
            for case, run in zip(self.cases, self.runs, strict=True)
            if run is not None and case.measured_seconds
        ]

    def fitter(self) -> Fitter:
        """What chooses constants on the measured runs."""
        rows = self.judged()
        evidence = Evidence(
            [run for _, run in rows],
            np.array([case.measured_seconds for case, _ in rows], dtype=np.float64),
            [case.source for case, _ in rows],
            [str(case.configuration.get("id", case.row)) for case, _ in rows],
        )
        return Fitter(evidence.thinned(), self.parameters, forecast_seconds)


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
    """Constants for the runs of one source, or of all (source None), and the widths of intervals."""

    source: str | None
    values: Mapping[str, float]
    widths: StepWidths


def choose_without_each(
    suite: PricedSuite, sources: Sequence[str], say: Say = lambda text: None
) -> list[Chosen]:
    """Constants of each source from all others, and widths from the others' left-out forecasts."""
    every = suite.sources
    wanted = every if "each" in sources else list(dict.fromkeys(sources))
    for name in wanted:
        if name not in every:
            raise UnknownNameError("source", name, every, f"Known: {', '.join(every)}.")
    values = values_without_each(suite, say)
    rows, noisy = left_out_rows(suite, values), suite.noisy_sources
    return [
        Chosen(name, values[name], fit_widths([row for row in rows if row.source != name], noisy))
        for name in wanted
    ]


def left_out_rows(suite: PricedSuite, values: Mapping[str, Mapping[str, float]]) -> list[WidthRow]:
    """Every judged run as forecast by the constants of the other sources."""
    found = []
    for case, run in suite.judged():
        seconds, parts = forecast_parts(run, values[case.source])
        group, measured = str(case.configuration.get("model", "")), float(case.measured_seconds or 0.0)
        framework, plan = run.run.training.framework, run.run.work.plan
        found.append(WidthRow(case.source, group, framework, plan, parts, seconds, measured))
    return found


def choose_on_all(suite: PricedSuite, say: Say = lambda text: None) -> Chosen:
    """Constants of all sources together, with widths from forecasts whose source was left out."""
    folds = values_without_each(suite, say)
    say("choosing constants on all sources")
    widths = fit_widths(left_out_rows(suite, folds), suite.noisy_sources)
    return Chosen(None, suite.fitter().fit(), widths)


def values_without_each(suite: PricedSuite, say: Say = lambda text: None) -> dict[str, dict[str, float]]:
    """Constants of each source from all others."""
    return _without_each(suite.fitter(), suite.sources, say)


def _without_each(fitter: Fitter, sources: Sequence[str], say: Say) -> dict[str, dict[str, float]]:
    values = {}
    for name in sources:
        say(f"choosing constants without {name}")
        values[name] = fitter.fit(without=name)
    return values


def shipped_choice() -> Chosen:
    """The constants of the data file."""
    return Chosen(None, shipped_values(), load_step_widths())
