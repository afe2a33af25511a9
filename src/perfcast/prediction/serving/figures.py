"""From requests as answered to figures: latencies over requests, rates, and what limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.serving.outcome import Occupancy, Played

#: Of the cache, beyond which a request that waits beside free places waits for memory.
_NEARLY_FULL = 0.9


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds over requests."""

    mean: float
    median: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run, or one steady state, comes to; nothing of intervals.

    Attributes:
        mean_batch: Requests that an engine has under way (of two pools: that writes), mean over time.
        bound_by: As in ``ServingForecast``.
    """

    time_to_first_token: Quantiles
    time_per_output_token: Quantiles
    end_to_end: Quantiles
    requests_per_second: float
    output_tokens_per_second: float
    input_tokens_per_second: float
    mean_batch: float
    bound_by: Mapping[str, float]

    def named(self) -> dict[str, float]:
        """Latencies and rates as one flat table, ``time_to_first_token.p90`` and so on."""
        found: dict[str, float] = {}
        for name in LATENCIES:
            quantiles: Quantiles = getattr(self, name)
            found |= {f"{name}.{part.name}": getattr(quantiles, part.name) for part in fields(Quantiles)}
        found |= {name: getattr(self, name) for name in RATES}
        return found


LATENCIES = ("time_to_first_token", "time_per_output_token", "end_to_end")
RATES = ("requests_per_second", "output_tokens_per_second", "input_tokens_per_second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What the engines of a deployment have room for, together.

    Attributes:
        engines: Schedulers, of the pool that writes where there are two.
        all_engines: Of both pools.
        sequences: That run at once.
        kv_tokens: That the caches hold.
    """

    engines: int
    all_engines: int
    sequences: int
    kv_tokens: int


def figures_of(played: Played, places: Places) -> Figures:
    """Latencies of the requests that were finished in the measured window, and rates over it."""
    within = in_window(played)
    seconds = max(played.measured_to_seconds - played.measured_from_seconds, np.finfo(float).tiny)
    count = float(within.sum())
    return Figures(
        time_to_first_token=quantiles(played.time_to_first_token_seconds[within]),
        time_per_output_token=quantiles(played.time_per_output_token_seconds[within]),
        end_to_end=quantiles(played.end_to_end_seconds[within]),
        requests_per_second=count / seconds,
        output_tokens_per_second=float(played.answer_tokens[within].sum()) / seconds,
        input_tokens_per_second=float(played.prompt_tokens[within].sum()) / seconds,
        mean_batch=mean_batch(played, places),
        bound_by=bounds_of(played, places),
    )


def in_window(played: Played) -> Flags:
    """Finished in the window; all where none was."""
    finished = played.finished_seconds
    within = (finished >= played.measured_from_seconds) & (finished <= played.measured_to_seconds)
    return np.asarray(within if within.any() else np.ones(len(finished), dtype=np.bool_))


def quantiles(seconds: Floats) -> Quantiles:
    """Of what is known; zeros where nothing is, as of tokens after the first of answers of one token."""
    known = seconds[np.isfinite(seconds)]
    if not len(known):
        return Quantiles(0.0, 0.0, 0.0, 0.0)
    median, p90, p99 = np.quantile(known, (0.5, 0.9, 0.99)).tolist()
    return Quantiles(float(known.mean()), median, p90, p99)


def stretched(played: Played, factor: float) -> Played:
    """The same run where every step takes ``factor`` times as long: what closed and saturated loads do."""
    times = (
        "sent_seconds",
        "started_seconds",
        "first_token_seconds",
        "finished_seconds",
        "busy_seconds",
        "measured_from_seconds",
        "measured_to_seconds",
    )
    occupancy = replace(played.occupancy, seconds=played.occupancy.seconds * factor)
    bounds = {name: value * factor for name, value in played.seconds_by_bound.items()}
    changed = {name: getattr(played, name) * factor for name in times}
    return replace(played, occupancy=occupancy, seconds_by_bound=bounds, **changed)


def in_proportion(whole: Figures, part: Figures, changed: Figures) -> Figures:
    """``whole``, changed as a part of it changed: each latency and rate by the same factor."""
    latencies = {
        name: Quantiles(
            *(
                _proportion(
                    getattr(getattr(whole, name), each.name),
                    getattr(getattr(part, name), each.name),
                    getattr(getattr(changed, name), each.name),
                )
                for each in fields(Quantiles)
            )
        )
        for name in LATENCIES
    }
    rates = {
        name: _proportion(getattr(whole, name), getattr(part, name), getattr(changed, name)) for name in RATES
    }
    return replace(whole, **latencies, **rates)  # type: ignore[arg-type]


def _proportion(whole: float, part: float, changed: float) -> float:
    """By the factor of the part; what the part has none of stays."""
    return whole * changed / part if part > 0 else whole


def mean_batch(played: Played, places: Places) -> float:
    """Requests that an engine has under way; of two pools, that an engine of the second writes."""
    if places.all_engines == places.engines:
        return mean_running(played) / places.engines
    start, end = played.measured_from_seconds, played.measured_to_seconds
    begins = np.clip(played.first_token_seconds, start, end)
    seconds = np.clip(played.finished_seconds, start, end) - begins
    return float(seconds.sum()) / max(end - start, np.finfo(float).tiny) / places.engines


def mean_running(played: Played) -> float:
    """Requests under way, mean over the measured window."""
    found = played.occupancy
    return _mean_over(found, played, lambda each: each.running.astype(np.float64))


def bounds_of(played: Played, places: Places) -> dict[str, float]:
    """Shares of time by what limits, of sum 1: idle engines, places that wait for memory, bounds of steps."""
    total = sum(played.seconds_by_bound.values())
    span = played.occupancy.seconds[-1] if len(played.occupancy.seconds) else 0.0
    span = max(float(span), float(played.finished_seconds.max()))
    busy = min(1.0, played.busy_seconds / (places.all_engines * span)) if span > 0 else 1.0
    waits = _mean_over(
        played.occupancy,
        played,
        lambda each: (
            (each.waiting > 0)
            & (each.running < places.sequences)
            & (each.kv_tokens >= _NEARLY_FULL * places.kv_tokens)
        ).astype(np.float64),
    )
    shares = {"queue": 1.0 - busy, "kv_memory": busy * waits}
    for name, seconds in played.seconds_by_bound.items():
        shares[name] = busy * (1.0 - waits) * (seconds / total if total else 0.0)
    whole = sum(shares.values()) or 1.0
    return {name: share / whole for name, share in shares.items() if share > 0}


def _mean_over(found: Occupancy, played: Played, values: Callable[[Occupancy], Floats]) -> float:
    """Mean over the measured window of what is constant between the rows of an occupancy."""
    if not len(found.seconds):
        return 0.0
    start, end = played.measured_from_seconds, played.measured_to_seconds
    edges = np.clip(np.append(found.seconds, max(end, float(found.seconds[-1]))), start, end)
    lengths = np.diff(edges)
    whole = float(lengths.sum())
    return float((values(found) * lengths).sum() / whole) if whole > 0 else 0.0
