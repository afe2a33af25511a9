"""A deployment under a load by formula: the steady state, with short and with long steps beside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import Load, OpenLoad, RecordedLoad, SaturatedLoad
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.steady import LatencyColumns, SteadyState
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.errors import PlanError
from perfcast.prediction.serving.answer import forecast_of
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.engines import engines_of, request_seconds_of, transfer_of
from perfcast.prediction.serving.figures import Figures, Quantiles
from perfcast.prediction.serving.intervals import Runs, steps_between
from perfcast.prediction.serving.limits import share_of_figures
from perfcast.prediction.serving.resolve import ResolvedServing
from perfcast.simulate.closed_form.serving.one import steady_state

#: A coefficient of variation below which lengths are all the same.
_SAME = 1e-3


def by_formula(setting: ResolvedServing, times: tuple[TabulatedSteps, ...]) -> ServingForecast:
    """The forecast of the steady state; of a load beyond what is answered, of so many requests of it.

    Args:
        times: Of each pool.

    Raises:
        PlanError: Formulas that find no balance; prompts that are never cut and longer than a step.
    """
    low, high = steps_between(times, load_serving_constants())
    usual, short, long = (_figures(setting, times, factor) for factor in (1.0, low, high))
    if not all(math.isfinite(value) for run in (usual, short, long) for value in run.named().values()):
        raise PlanError("the closed form finds no steady state of this load; take --method events")
    notes, share = _notes(setting, usual), partial(share_of_figures, usual, setting.request.limits)
    return forecast_of(setting, times, Runs(usual, short, long), "closed_form", notes, None, share)


def _notes(setting: ResolvedServing, usual: Figures) -> Iterable[str]:
    load = _load(setting)
    if isinstance(setting.request.load, RecordedLoad):
        yield "the closed form takes the mean rate of the recording, its lengths by mean and spread"
    if isinstance(load, OpenLoad) and usual.requests_per_second < 0.999 * load.requests_per_second:
        yield (
            f"{load.requests_per_second:.3g} requests/s come, {usual.requests_per_second:.3g} are answered: "
            f"the queue grows without end; figures are of its first {len(setting.requests):,}"
        )


def _figures(setting: ResolvedServing, times: tuple[TabulatedSteps, ...], factor: float) -> Figures:
    load = _load(setting)
    found = _steady(setting, times, factor, load)
    if isinstance(load, SaturatedLoad):
        return _overloaded(found, math.inf, len(setting.requests))
    if bool(found.is_stable[0]) or not isinstance(load, OpenLoad):
        return _figures_of(found)
    full = _steady(setting, times, factor, SaturatedLoad())
    return _overloaded(full, load.requests_per_second, len(setting.requests))


def _steady(
    setting: ResolvedServing, times: tuple[TabulatedSteps, ...], factor: float, load: Load
) -> SteadyState:
    requests = setting.requests
    prompts = setting.request.prompts or lengths_of(requests.prompt_tokens)
    answers = setting.request.answers or lengths_of(requests.answer_tokens)
    whole = setting.request.measure == "all" and not isinstance(load, SaturatedLoad)
    return steady_state(
        load,
        prompts,
        answers,
        engines_of(setting, times, factor),
        transfer=transfer_of(setting),
        request_seconds=request_seconds_of(setting),
        prefix_hit_share=_hit_share(requests),
        num_requests=float(len(requests)) if whole else math.inf,
    )


def _load(setting: ResolvedServing) -> Load:
    """A recording by its mean rate."""
    load, requests = setting.request.load, setting.requests
    if not isinstance(load, RecordedLoad):
        return load
    span = float(requests.arrival_seconds[-1])
    if span <= 0:
        return SaturatedLoad()
    gaps = np.diff(requests.arrival_seconds)
    burstiness = float(gaps.var() / gaps.mean() ** 2) if len(gaps) > 1 else 1.0
    return OpenLoad((len(requests) - 1) / span, min(burstiness, 1e3))


def _hit_share(requests: Requests) -> float:
    return float(requests.cached_tokens.sum() / requests.prompt_tokens.sum())


def lengths_of(tokens: Integers) -> Lengths:
    """Lengths with the mean and the spread of those that were recorded."""
    mean = float(tokens.mean())
    spread = float(tokens.std()) / mean
    return Lengths(mean) if spread < _SAME else Lengths(mean, "lognormal", min(spread, 9.99))


def _figures_of(found: SteadyState) -> Figures:
    first, token, whole = (
        _quantiles(each)
        for each in (found.time_to_first_token, found.time_per_output_token, found.end_to_end)
    )
    return Figures(
        time_to_first_token=first,
        time_per_output_token=token,
        end_to_end=whole,
        requests_per_second=float(found.requests_per_second[0]),
        output_tokens_per_second=float(found.output_tokens_per_second[0]),
        input_tokens_per_second=float(found.input_tokens_per_second[0]),
        mean_batch=float(found.mean_batch[0]),
        bound_by={name: float(shares[0]) for name, shares in found.bound_by.items() if shares[0] > 0},
    )


def _quantiles(columns: LatencyColumns) -> Quantiles:
    return Quantiles(*(float(each[0]) for each in (columns.mean, columns.median, columns.p90, columns.p99)))


def _overloaded(full: SteadyState, rate: float, count: int) -> Figures:
    """The first ``count`` requests of a load beyond what is answered: the k-th waits k (1/X - 1/λ)."""
    usual = _figures_of(full)
    answered, token = usual.requests_per_second, usual.time_per_output_token
    further = usual.output_tokens_per_second / answered - 1.0
    late = max(0.0, 1.0 / answered - 1.0 / rate) * count
    first = Quantiles(late / 2, late / 2, 0.9 * late, 0.99 * late)
    writing = Quantiles(
        further * token.mean, further * token.median, further * token.p90, further * token.p99
    )
    whole = _sum(first, writing)
    return replace(
        usual,
        time_to_first_token=first,
        end_to_end=whole,
    )


def _sum(one: Quantiles, other: Quantiles) -> Quantiles:
    return Quantiles(
        one.mean + other.mean, one.median + other.median, one.p90 + other.p90, one.p99 + other.p99
    )
