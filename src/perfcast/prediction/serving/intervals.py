"""Figures of three runs, one with usual and two with short and long steps, as figures with 90 % intervals.

What moves the steps' prices and what the form of the forecast leaves out are independent: their factors are
joined as the root of summed squares of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from perfcast.core.forecast.serving import Between, Latency, ServingRates
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.prediction.serving.constants import ServingConstants, Spread
from perfcast.prediction.serving.figures import Figures, Quantiles
from perfcast.units import HOUR, MEGA


@dataclass(frozen=True, slots=True)
class Runs:
    """The same question with usual, short and long steps."""

    usual: Figures
    short: Figures
    long: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What running costs.

    Attributes:
        dollars_per_hour: Of all devices; None without a price.
        watts: Of all devices and their share of the servers; None where no power is published.
    """

    dollars_per_hour: float | None
    watts: float | None


def steps_between(times: Iterable[TabulatedSteps], constants: ServingConstants) -> tuple[float, float]:
    """Factors of short and of long steps: of their prices' widest interval the share that counts."""
    found = list(times)
    share = constants.steps_share
    return min(each.low for each in found) ** share, max(each.high for each in found) ** share


def latency_between(runs: Runs, name: str, spread: Spread) -> Latency:
    """One of ``figures.LATENCIES``."""
    usual, short, long = (getattr(run, name) for run in (runs.usual, runs.short, runs.long))

    def between(read: Callable[[Quantiles], float]) -> Between:
        return joined(read(usual), (read(short), read(long)), spread)

    return Latency(
        mean=between(lambda each: each.mean),
        median=between(lambda each: each.median),
        p90=between(lambda each: each.p90),
        p99=between(lambda each: each.p99),
    )


def rates_between(
    runs: Runs,
    per_token: Latency,
    num_devices: int,
    bill: Bill,
    spread: Spread,
    *,
    requests_per_second: float | None = None,
    within: Between | None = None,
) -> ServingRates:
    """What a deployment does in the long run, and what that costs.

    Args:
        requests_per_second: That come, whatever becomes of them; None where the load follows the deployment.
        within: Share of requests that keep the limits; None without limits.
    """
    if requests_per_second is not None:
        spread = spread_of_stream(spread, runs.usual, requests_per_second)

    def between(read: Callable[[Figures], float]) -> Between:
        return joined(read(runs.usual), (read(runs.long), read(runs.short)), spread)

    requests = between(lambda run: run.requests_per_second)
    output = between(lambda run: run.output_tokens_per_second)
    inputs = between(lambda run: run.input_tokens_per_second)
    return ServingRates(
        requests_per_second=requests,
        output_tokens_per_second=output,
        input_tokens_per_second=inputs,
        output_tokens_per_second_per_device=scaled(output, 1.0 / num_devices),
        output_tokens_per_second_per_user=inverse(per_token.mean, 1.0),
        goodput_requests_per_second=None if within is None else _product(requests, within),
        dollars_per_million_input_tokens=_per_million(bill.dollars_per_hour, inputs),
        dollars_per_million_output_tokens=_per_million(bill.dollars_per_hour, output),
        joules_per_million_input_tokens=_energy(bill.watts, inputs),
        joules_per_million_output_tokens=_energy(bill.watts, output),
    )


def spread_of_stream(spread: Spread, usual: Figures, requests_per_second: float) -> Spread:
    """The spread of a rate that the load decides: it is answered no faster than it comes.

    And slower only by what a longer step takes beyond the time in which engines are idle.
    """
    idle = usual.bound_by.get("queue", 0.0)
    high = requests_per_second / usual.requests_per_second if usual.requests_per_second > 0 else 1.0
    low = min(1.0, spread.low / max(1.0 - idle, spread.low))
    return Spread(low, min(max(high, 1.0), spread.high), spread.source)


def joined(value: float, ends: tuple[float, float], spread: Spread) -> Between:
    """A figure between what short and long steps make of it, with the spread of the form beside."""
    if value <= 0:
        return Between(value, min(value, *ends), max(value, *ends))
    low, high = min(value, *ends), max(value, *ends)
    downwards = math.hypot(math.log(max(low, 1e-12 * value) / value), math.log(spread.low))
    upwards = math.hypot(math.log(high / value), math.log(spread.high))
    return Between(value, value * math.exp(-downwards), value * math.exp(upwards))


def _product(one: Between, other: Between) -> Between:
    """Of two that rise and fall together."""
    return Between(one.value * other.value, one.low * other.low, one.high * other.high)


def scaled(found: Between, factor: float) -> Between:
    """All three times a factor above 0."""
    return Between(found.value * factor, found.low * factor, found.high * factor)


def inverse(found: Between, amount: float) -> Between:
    """``amount`` over each, low and high exchanged; zeros where the figure is 0."""
    if found.low <= 0:
        return Between(0.0, 0.0, 0.0)
    return Between(amount / found.value, amount / found.high, amount / found.low)


def _energy(watts: float | None, rate: Between) -> Between | None:
    """Joules of a million tokens."""
    return None if watts is None else inverse(rate, watts * MEGA)


def _per_million(dollars_per_hour: float | None, rate: Between) -> Between | None:
    return None if dollars_per_hour is None else inverse(rate, dollars_per_hour / HOUR * MEGA)
