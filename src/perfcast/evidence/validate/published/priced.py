"""All published runs with their operations priced, and the constants that are chosen on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.cost.model import CostModel
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.published.cases import PublishedCase
from perfcast.evidence.validate.published.forecast import forecast_seconds
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
from perfcast.evidence.validate.step_constants.spread import Spread, fit_spread, spread_class
from perfcast.prediction.step.scaling import load_step_scaling

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
    values = _without_each(suite.fitter(), every, say)
    ratios = left_out_ratios(suite, values)
    return [Chosen(name, values[name], _spread(ratios, suite.noisy_sources, without=name)) for name in wanted]


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


def _spread(
    ratios: Sequence[Ratio], noisy: Collection[str], without: str | None = None
) -> dict[str, tuple[float, float]]:
    """Spreads by class, without sources whose own repeats differ too much to tell forecasts apart."""
    rows = [row for row in ratios if row[1] != without and row[1] not in noisy]
    return fit_spread([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def choose_on_all(suite: PricedSuite, say: Say = lambda text: None) -> Chosen:
    """Constants of all sources together, with the spread of forecasts whose source was left out."""
    fitter = suite.fitter()
    folds = _without_each(fitter, suite.sources, say)
    say("choosing constants on all sources")
    return Chosen(None, fitter.fit(), _spread(left_out_ratios(suite, folds), suite.noisy_sources))


def _without_each(fitter: Fitter, sources: Sequence[str], say: Say) -> dict[str, dict[str, float]]:
    values = {}
    for name in sources:
        say(f"choosing constants without {name}")
        values[name] = fitter.fit(without=name)
    return values


def shipped_choice() -> Chosen:
    """The constants of the data file."""
    scaling = load_step_scaling()
    return Chosen(None, shipped_values(), scaling.spread)
