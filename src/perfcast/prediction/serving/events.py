"""A deployment under a load by events: every step of every engine is played.

Where a load follows the deployment (clients that wait, or a queue that is never empty), a run whose steps all
take so many times as long is the same run so many times as long: its intervals follow from the steps' alone.
A load that comes at its own times is played again with short and with long steps.
"""

from __future__ import annotations

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.serving.load import ClosedLoad, SaturatedLoad
from perfcast.core.serving.outcome import Played
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.prediction.serving.answer import forecast_of, places_of
from perfcast.prediction.serving.engines import engines_of, request_seconds_of, transfer_of
from perfcast.prediction.serving.figures import figures_of, stretched
from perfcast.prediction.serving.intervals import Runs
from perfcast.prediction.serving.resolve import ResolvedServing
from perfcast.simulate.serving.play import play_requests


def by_events(setting: ResolvedServing, times: tuple[TabulatedSteps, ...]) -> ServingForecast:
    """The forecast of a run, and of two others that bound it.

    Args:
        times: Of each pool.

    Raises:
        InputError: A request that no engine could ever answer.
    """
    request, places = setting.request, places_of(setting)
    low, high = min(each.low for each in times), max(each.high for each in times)
    played = _play(setting, times)
    if isinstance(request.load, ClosedLoad | SaturatedLoad):
        short, long = stretched(played, low), stretched(played, high)
    else:
        short, long = _play(setting, times, low), _play(setting, times, high)
    usual, shorter, longer = (figures_of(each, places, request.limits) for each in (played, short, long))
    return forecast_of(setting, times, Runs(usual, shorter, longer), "events", (_note(played),), played)


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
