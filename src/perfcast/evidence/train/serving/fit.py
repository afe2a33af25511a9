"""``train serving``: measured points of one half of the configurations → constants of serving.

* Seconds of a request between client and engine, by framework: those that bring the forecast times to a first
  token of servers (one pool) nearest to the measured ones, by the sum of absolute logarithms, of which each
  counts as twofold at most: some runs were measured with stalls of seconds at their start.
* Seconds of a request's hand-over between two pools, likewise.
* Spreads: of measured over forecast times the 5th and 95th percentile, beyond what a part of the steps' own
  interval explains; the part is the one that makes the intervals narrowest at equal coverage. Configurations
  count alike, however many loads each was measured at: who asks has another one.

The other half of the configurations is not read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.serving.deployment import Disaggregated
from perfcast.errors import InputError
from perfcast.evidence.validate.sampling import sample
from perfcast.evidence.validate.serving.cases import TABLE, ServingCase, read_cases
from perfcast.evidence.validate.serving.forecast import forecast_point
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.resolve import resolve_serving

OPERATIONS = ("ttft", "tpot", "e2e")
_LEAST_POINTS = 10
_CANDIDATES = np.concatenate([[0.0], np.geomspace(1e-3, 3.0, 120)])
_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
_MOST_ERROR = math.log(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPoint:
    """A measured point beside its forecast without the constants that are fitted.

    Attributes:
        framework: That serves.
        is_split: Whether two pools serve.
        is_sure: Whether the line leaves one deployment alone as possible.
        is_stated: Whether the seconds of a request beside its steps are stated, and not to be fitted.
        forecast, measured: Seconds, by operation.
        steps_low, steps_high: Factors of the steps' own interval.
        configuration: Which deployment, whatever its load; configurations count alike for spreads.
    """

    framework: str
    is_split: bool
    is_sure: bool
    is_stated: bool
    forecast: Mapping[str, float]
    measured: Mapping[str, float]
    steps_low: float
    steps_high: float
    configuration: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FittedSpread:
    """Factors between which 90 % lie."""

    low: float
    high: float


@dataclass(frozen=True)
class FittedServing:
    """What was fitted.

    Attributes:
        request_seconds, handover_seconds: By framework.
        steps_share: Of the logarithm of the steps' interval.
        spreads, spreads_of_two_pools: By operation.
        num_points, num_configurations: That it rests on.
    """

    request_seconds: Mapping[str, float]
    handover_seconds: Mapping[str, float]
    steps_share: float
    spreads: Mapping[str, FittedSpread]
    spreads_of_two_pools: Mapping[str, FittedSpread]
    num_points: int
    num_configurations: int


def fit_serving(
    places: Sequence[Path], say: Callable[[str], None], *, max_rows: int | None = None
) -> FittedServing:
    """Fit to the tables of folders.

    Raises:
        InputError: No table, or too few points.
    """
    cases = [case for case in read_cases(places) if case.half == "fitted" and case.setup]
    if max_rows is not None:
        cases = sample(cases, max_rows, lambda case: f"{TABLE} {case.row}", _stratum)
    if len(cases) < _LEAST_POINTS:
        raise InputError(f"{', '.join(map(str, places))}: {len(cases)} points to fit to")
    points = collect_points(cases, say)
    configurations = {case.setup.configuration for case in cases if case.setup}
    return fit_points(points, len(configurations))


def _stratum(case: ServingCase) -> tuple[str, ...]:
    return tuple(str(case.columns.get(name)) for name in ("backend", "mode"))


def collect_points(cases: Sequence[ServingCase], say: Callable[[str], None]) -> list[FittedPoint]:
    """Forecasts of all points that have one, each different one once."""
    found: list[FittedPoint] = []
    ordered = sorted(cases, key=lambda case: case.setup.configuration if case.setup else ())
    seen, configuration, tables = set(), None, StepTables()
    for count, case in enumerate(ordered):
        if case.setup is None or case.setup in seen:
            continue
        if case.setup.configuration[:4] != configuration:
            configuration, tables = case.setup.configuration[:4], StepTables()
        seen.add(case.setup)
        point = _point(case, tables)
        if point is not None:
            found.append(point)
        if count % 100 == 0:
            say(f"{count} of {len(ordered)} points")
    return found


def _point(case: ServingCase, tables: StepTables) -> FittedPoint | None:
    assert case.setup is not None
    request, constants = case.setup.request, load_serving_constants()
    ttft, tpot = (case.measured_seconds[name] for name in ("ttft", "tpot"))
    if ttft is None or tpot is None or request.answers is None:
        return None
    try:
        times = forecast_point(replace(case.setup, instead=()), "events", tables)
        steps = tables.of(resolve_serving(request))
    except InputError:
        return None
    framework, is_split = request.engine.framework or "", isinstance(request.deployment, Disaggregated)
    is_stated = request.request_seconds is not None
    shipped = 0.0 if is_stated else constants.request_seconds[framework]
    shipped += is_split * constants.handover_seconds[framework]
    forecast = {name: span.value for name, span in times.spans.items()}
    forecast["ttft"] = max(forecast["ttft"] - shipped, 1e-6)
    further = request.answers.mean_tokens - 1.0
    return FittedPoint(
        framework=framework,
        is_split=is_split,
        is_sure=not case.setup.instead,
        is_stated=is_stated,
        forecast={**forecast, "e2e": forecast["ttft"] + further * forecast["tpot"]},
        measured={"ttft": ttft, "tpot": tpot, "e2e": ttft + further * tpot},
        steps_low=min(each.low for each in steps),
        steps_high=max(each.high for each in steps),
        configuration=case.setup.configuration,
    )


def fit_points(points: Sequence[FittedPoint], num_configurations: int) -> FittedServing:
    """All constants, one after the other."""
    frameworks = sorted({point.framework for point in points})
    requests, handovers = {}, {}
    for name in frameworks:
        fitted = [point for point in points if point.framework == name and not point.is_stated]
        one = [point for point in fitted if not point.is_split]
        requests[name] = added_seconds(one, 0.0)
        two = [point for point in fitted if point.is_split]
        handovers[name] = added_seconds(two, requests[name])
    sure = [point for point in points if point.is_sure]
    added = [
        (not each.is_stated) * requests[each.framework] + each.is_split * handovers[each.framework]
        for each in sure
    ]
    share = min(_SHARES, key=lambda share: _mean_width(sure, added, share))
    return FittedServing(
        request_seconds=requests,
        handover_seconds=handovers,
        steps_share=share,
        spreads=_spreads_where(sure, added, share, is_split=False),
        spreads_of_two_pools=_spreads_where(sure, added, share, is_split=True),
        num_points=len(points),
        num_configurations=num_configurations,
    )


def _spreads_where(
    points: Sequence[FittedPoint], added: Sequence[float], share: float, *, is_split: bool
) -> dict[str, FittedSpread]:
    """By operation, of deployments in one pool or in two; of all where few points are of either."""
    chosen = [place for place, point in enumerate(points) if point.is_split == is_split]
    if len(chosen) < _LEAST_POINTS:
        chosen = list(range(len(points)))
    some, more = [points[place] for place in chosen], [added[place] for place in chosen]
    return {name: fit_spread(some, more, name, share) for name in OPERATIONS}


def added_seconds(points: Sequence[FittedPoint], already: float) -> float:
    """What must be added to forecast first tokens; 0 where too few points tell."""
    if len(points) < _LEAST_POINTS:
        return 0.0
    forecast = np.array([point.forecast["ttft"] for point in points]) + already
    measured = np.array([point.measured["ttft"] for point in points])
    errors = np.abs(np.log((forecast[None, :] + _CANDIDATES[:, None]) / measured))
    errors = np.minimum(errors, _MOST_ERROR).sum(axis=1)
    return float(_CANDIDATES[int(errors.argmin())])


def fit_spread(
    points: Sequence[FittedPoint], added: Sequence[float], name: str, share: float
) -> FittedSpread:
    """The narrowest factors with which 90 % lie in intervals, 5 % beyond either end.

    An end is exp(hypot(share · ln s, ln f)) of the forecast, with the steps' factor s and the spread's f.
    """
    ratios, low, high = _logarithms(points, added, name)
    weight = _weights(points)
    return FittedSpread(
        math.exp(-_end(-ratios, share * low, weight)), math.exp(_end(ratios, share * high, weight))
    )


def _weights(points: Sequence[FittedPoint]) -> Floats:
    """Of each point: all of one configuration together count as one of any other."""
    count = Counter(point.configuration for point in points)
    return np.array([1.0 / count[point.configuration] for point in points])


def _logarithms(
    points: Sequence[FittedPoint], added: Sequence[float], name: str
) -> tuple[Floats, Floats, Floats]:
    """Of measured over forecast, and of the steps' factors downwards and upwards, all counted positive."""
    more = np.array(added) if name != "tpot" else np.zeros(len(points))
    forecast = np.array([point.forecast[name] for point in points]) + more
    measured = np.array([point.measured[name] for point in points])
    low = -np.log(np.array([point.steps_low for point in points]))
    high = np.log(np.array([point.steps_high for point in points]))
    return np.log(measured / forecast), np.maximum(low, 0.0), np.maximum(high, 0.0)


def _end(beyond: Floats, steps: Floats, weight: Floats) -> float:
    """The least logarithm f with beyond <= hypot(steps, f) for 95 % of the points by their weights."""
    needed = np.sqrt(np.maximum(np.maximum(beyond, 0.0) ** 2 - steps**2, 0.0))
    order = np.argsort(needed, kind="stable")
    middle = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(0.95 * weight.sum(), middle, needed[order]))


def _mean_width(points: Sequence[FittedPoint], added: Sequence[float], share: float) -> float:
    """Of the intervals of both times, in logarithms."""
    total = 0.0
    for name in ("ttft", "tpot"):
        _, low, high = _logarithms(points, added, name)
        spread = fit_spread(points, added, name, share)
        ends = (np.hypot(share * low, math.log(spread.low)), np.hypot(share * high, math.log(spread.high)))
        total += float(np.mean(ends[0] + ends[1]))
    return total


def format_constants(fitted: FittedServing) -> str:
    """The data file of ``prediction/serving``."""
    source = (
        f"perfcast train serving: {fitted.num_points} points of {fitted.num_configurations} configurations "
        "of inference_ttft_tpot_aiconfigurator (ai-dynamo/aiconfigurator, Apache-2.0), one half by a hash "
        "of the configuration; the other half is what they are worth (docs/accuracy.md)"
    )
    lines = [
        "# What no step's time holds: requests on their way, and how far measured figures are from forecast.",
        "[sources]",
        f'fitted = "{source}"',
    ]
    for name, values in (
        ("request_seconds", fitted.request_seconds),
        ("handover_seconds", fitted.handover_seconds),
    ):
        lines += [
            "",
            f"[{name}]",
            *(f"{key} = {_figure(value, 's')}" for key, value in values.items() if value),
        ]
    lines += ["", "# Of the logarithm of the steps' own interval, joined with the spread below.", "[steps]"]
    lines += [
        f"share = {_figure(fitted.steps_share, '1')}",
        "",
        "# Measured over forecast: 5th and 95th percentile.",
    ]
    lines += _spread_lines("spread", fitted.spreads)
    lines += ["# The same where one pool reads and another writes."]
    lines += _spread_lines("spread_of_two_pools", fitted.spreads_of_two_pools)
    return "\n".join(lines)


def _spread_lines(table: str, fitted: Mapping[str, FittedSpread]) -> list[str]:
    words = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "e2e": "end_to_end"}
    spreads = {words[name]: fitted[name] for name in OPERATIONS}
    spreads["rates"] = FittedSpread(1.0 / fitted["e2e"].high, 1.0 / fitted["e2e"].low)
    lines = []
    for name, spread in spreads.items():
        lines += [
            f"[{table}.{name}]",
            f"low = {_figure(spread.low, '1')}",
            f"high = {_figure(spread.high, '1')}",
            "",
        ]
    return lines


def _figure(value: float, unit: str) -> str:
    return f'{{ value = {value:.3g}, unit = "{unit}", source = "fitted" }}'
