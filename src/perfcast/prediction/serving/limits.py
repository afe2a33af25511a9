"""Which share of requests keeps the limits of a question, and between which ends that lies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perfcast.core.arrays import Flags
from perfcast.core.forecast.serving import Between, Latency
from perfcast.core.serving.outcome import Played
from perfcast.prediction.request.serving import Limits
from perfcast.prediction.serving.figures import Figures, Quantiles, in_window

#: Factors on the time to the first token, of each further one, and from end to end.
Stretches = tuple[float, float, float]
#: Share of requests that keep all limits where latencies are so many times as long.
ShareWithin = Callable[[Stretches], float]


def within_of(share: ShareWithin, limits: Limits, latencies: tuple[Latency, ...]) -> Between | None:
    """The share, fewest where all latencies are at the upper ends of their intervals; None without limits."""
    if not limits.any_stated:
        return None

    def stretches(read: Callable[[Between], float]) -> Stretches:
        first, token, whole = (
            read(each.mean) / each.mean.value if each.mean.value > 0 else 1.0 for each in latencies
        )
        return first, token, whole

    ends = (share(stretches(lambda mean: mean.high)), share(stretches(lambda mean: mean.low)))
    usual = share((1.0, 1.0, 1.0))
    return Between(usual, min(usual, *ends), max(usual, *ends))


def share_of_played(played: Played, limits: Limits, stretches: Stretches) -> float:
    """Of the requests of the measured window."""
    within = in_window(played)
    keeps: Flags = within.copy()
    taken = (
        played.time_to_first_token_seconds,
        np.nan_to_num(played.time_per_output_token_seconds),
        played.end_to_end_seconds,
    )
    for limit, seconds, factor in zip(limits.seconds, taken, stretches, strict=True):
        if limit is not None:
            keeps = keeps & (seconds * factor <= limit)
    return float(keeps.sum() / within.sum())


def share_of_figures(figures: Figures, limits: Limits, stretches: Stretches) -> float:
    """By percentiles alone, where the slow ones of one limit are the slow ones of all."""
    latencies = (figures.time_to_first_token, figures.time_per_output_token, figures.end_to_end)
    shares = [
        share_within(latency, limit / factor)
        for limit, latency, factor in zip(limits.seconds, latencies, stretches, strict=True)
        if limit is not None
    ]
    return min(shares, default=1.0)


def share_within(latency: Quantiles, limit: float) -> float:
    """Share of requests within a limit: straight between the known percentiles, symmetric below the median.

    >>> share_within(Quantiles(2.0, 2.0, 3.0, 4.0), 3.0)
    0.9
    """
    least = max(0.0, 2 * latency.median - latency.p90)
    seconds = [least, latency.median, latency.p90, latency.p99]
    if limit >= latency.p99:
        return 1.0
    if limit < least:
        return 0.0
    return float(np.interp(limit, seconds, [0.1, 0.5, 0.9, 0.99]))
