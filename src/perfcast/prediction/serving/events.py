"""A deployment under a load by events: every step of every engine is played.

Where a load follows the deployment (clients that wait, or a queue that is never empty), a run whose steps all
take so many times as long is the same run so many times as long: its intervals follow from the steps' alone.
A load that comes at its own times is played again with short and with long steps; of many requests, those
that come most densely.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.serving.load import ClosedLoad, SaturatedLoad
from perfcast.core.serving.outcome import Played
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.prediction.serving.answer import forecast_of, places_of
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.engines import engines_of, request_seconds_of, transfer_of
from perfcast.prediction.serving.figures import Figures, figures_of, in_proportion, stretched
from perfcast.prediction.serving.intervals import Runs, steps_between
from perfcast.prediction.serving.limits import share_of_played
from perfcast.prediction.serving.resolve import ResolvedServing
from perfcast.simulate.serving.play import play_requests

#: Requests that are played with short and long steps, at least; of more than twice as many, these alone.
_PLAYED_AGAIN = 2000


def by_events(setting: ResolvedServing, times: tuple[TabulatedSteps, ...]) -> ServingForecast:
    """The forecast of a run, and of two others that bound it.

    Args:
        times: Of each pool.

    Raises:
        InputError: A request that no engine could ever answer.
    """
    played = _play(setting, times)
    factors = steps_between(times, load_serving_constants())
    if isinstance(setting.request.load, ClosedLoad | SaturatedLoad):
        short, long = (stretched(played, factor) for factor in factors)
        runs = Runs(*(_figures(setting, each) for each in (played, short, long)))
    else:
        runs = _streams(setting, times, _figures(setting, played), factors)
    share = partial(share_of_played, played, setting.request.limits)
    return forecast_of(setting, times, runs, "events", (_note(played),), played, share)


def _figures(setting: ResolvedServing, played: Played) -> Figures:
    return figures_of(played, places_of(setting))


def _streams(
    setting: ResolvedServing,
    times: tuple[TabulatedSteps, ...],
    usual: Figures,
    factors: tuple[float, float],
) -> Runs:
    """Played again with short and long steps; of many requests a dense part, whose ratios the whole takes."""
    if len(setting.requests) <= 2 * _PLAYED_AGAIN:
        short, long = (_figures(setting, _play(setting, times, factor)) for factor in factors)
        return Runs(usual, short, long)
    part = replace(setting, requests=densest(setting.requests, _PLAYED_AGAIN))
    same, short, long = (_figures(part, _play(part, times, factor)) for factor in (1.0, *factors))
    return Runs(usual, in_proportion(usual, same, short), in_proportion(usual, same, long))


def densest(requests: Requests, count: int) -> Requests:
    """So many that follow each other and come in the shortest time, the first of them at zero."""
    arrivals = requests.arrival_seconds
    start = int((arrivals[count - 1 :] - arrivals[: len(arrivals) - count + 1]).argmin())
    part = slice(start, start + count)
    return Requests(
        arrivals[part] - arrivals[start],
        requests.prompt_tokens[part],
        requests.answer_tokens[part],
        requests.cached_tokens[part],
    )


def _play(setting: ResolvedServing, times: tuple[TabulatedSteps, ...], factor: float = 1.0) -> Played:
    return play_requests(
        setting.requests,
        setting.request.load,
        engines_of(setting, times, factor),
        transfer=transfer_of(setting),
        request_seconds=request_seconds_of(setting),
        seed=setting.request.seed,
        measure=setting.request.measure,
        window=setting.request.window if factor == 1.0 else None,
    )


def _note(played: Played) -> str:
    first, last = float(played.sent_seconds.min()), float(played.finished_seconds.max())
    is_whole = played.measured_from_seconds <= first and played.measured_to_seconds >= last
    window = "all of them, the first ones included" if is_whole else "those that ended in the steady part"
    return f"{len(played.sent_seconds):,} requests are played, step by step; figures are of {window}"
