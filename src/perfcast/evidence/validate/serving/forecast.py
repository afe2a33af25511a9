"""A measured point → seconds to the first and of each further token, by events and by the closed form.

The benchmark's client starts all requests that its concurrency allows at once, sends ten of each client, and
states means over all of them: the first burst is a tenth of the mean. Of many clients fewer requests are
played, and what comes after the burst stands for all that does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.forecast.serving import Latency, ServingForecast, ServingMethod
from perfcast.core.serving.load import ClosedLoad
from perfcast.evidence.validate.serving.setups import ServingSetup
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.predict import predict_serving

PREDICTORS: tuple[ServingMethod, ...] = get_args(ServingMethod)
_REQUESTS_OF_A_CLIENT = 10
#: Requests that are played of each client, where there are at least so many of them.
_PLAYED = ((0, 10), (64, 6), (256, 4), (1024, 3), (3000, 2))


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds: best estimate, and between what 90 % lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ServedTimes:
    """What is forecast of one point.

    Attributes:
        spans: By operation: 'ttft', 'tpot'.
        bound_by: Shares of time.
    """

    spans: Mapping[str, Span]
    bound_by: Mapping[str, float]


def forecast_point(setup: ServingSetup, predictor: ServingMethod, tables: StepTables) -> ServedTimes:
    """Both times of a point; the intervals hold those of all deployments that its line leaves as possible.

    Raises:
        InputError: A deployment that model, framework or system cannot follow.
    """
    found = [_forecast(each, predictor, tables) for each in (setup.request, *setup.instead)]
    spans = {
        name: Span(
            found[0].spans[name].value,
            min(each.spans[name].low for each in found),
            max(each.spans[name].high for each in found),
        )
        for name in found[0].spans
    }
    return ServedTimes(spans, found[0].bound_by)


def _forecast(request: ServingRequest, predictor: ServingMethod, tables: StepTables) -> ServedTimes:
    clients = request.load.concurrency if isinstance(request.load, ClosedLoad) else 1
    asked = replace(request, num_requests=played_requests(clients), method=predictor)
    found = predict_serving(asked, tables)
    times = {"ttft": found.time_to_first_token, "tpot": found.time_per_output_token}
    spans = {name: _span(name, latency, found, clients) for name, latency in times.items()}
    return ServedTimes(spans, found.bound_by)


def played_requests(clients: int) -> int:
    """How many requests stand for ten of each client."""
    return clients * next(count for least, count in reversed(_PLAYED) if clients >= least)


def _span(name: str, latency: Latency, found: ServingForecast, clients: int) -> Span:
    """The mean over all requests, between ends as far away as those of the forecast's mean."""
    mean = latency.mean
    if found.played is None:
        return Span(mean.value, mean.low, mean.high)
    seconds = {
        "ttft": found.played.time_to_first_token_seconds,
        "tpot": found.played.time_per_output_token_seconds,
    }[name]
    value = mean_of_benchmark(seconds, clients)
    return Span(value, value * mean.low / mean.value, value * mean.high / mean.value)


def mean_of_benchmark(seconds: Floats, clients: int) -> float:
    """The mean over ten requests of each client, of those that were played in the order of their coming.

    >>> mean_of_benchmark(np.array([10.0, 10.0, 1.0, 1.0]), 2)
    1.9
    """
    first, others = seconds[:clients], seconds[clients:]
    if not len(others):
        return float(np.nanmean(first))
    share = 1.0 / _REQUESTS_OF_A_CLIENT
    return float(share * np.nanmean(first) + (1.0 - share) * np.nanmean(others))


def is_time(seconds: float) -> bool:
    """Whether a forecast is one."""
    return math.isfinite(seconds) and seconds > 0
