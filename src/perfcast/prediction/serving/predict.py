"""The forecast of a deployment under a load: steps timed, requests played, figures with intervals.

Where a load follows the deployment (clients that wait, or a queue that is never empty), a run whose steps all
take so many times as long is the same run so many times as long: its intervals follow from the steps' alone.
A load that comes at its own times is played again with short and with long steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfcast.catalog.runs import load_run_figures
from perfcast.core.forecast.serving import ServingForecast, ServingMethod
from perfcast.core.serving.load import ClosedLoad, SaturatedLoad
from perfcast.core.serving.outcome import Played
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.errors import InputError
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.run.energy import device_watts
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.engines import StepTables, engines_of, transfer_of
from perfcast.prediction.serving.figures import Places, figures_of, stretched
from perfcast.prediction.serving.intervals import Bill, Runs, latency_between, rates_between
from perfcast.prediction.serving.resolve import ResolvedServing, resolve_serving
from perfcast.simulate.serving.play import play_requests


def predict_serving(request: ServingRequest, tables: StepTables | None = None) -> ServingForecast:
    """A model under load.

    Args:
        tables: Step times that earlier questions built; None: none.

    Raises:
        InputError: An unknown name; a deployment that model or cluster cannot follow; a request longer than
            an engine's memory holds.
    """
    if request.method == "closed_form":
        raise InputError("--method closed-form: the steady state by formula is not here yet; take events")
    setting = resolve_serving(request)
    times = (tables or StepTables()).of(setting)
    return _by_events(setting, times)


# ---- events ------------------------------------------------------------------------------------


def _by_events(setting: ResolvedServing, times: tuple[TabulatedSteps, ...]) -> ServingForecast:
    request, places = setting.request, places_of(setting)
    low, high = min(each.low for each in times), max(each.high for each in times)
    played = _play(setting, times)
    if isinstance(request.load, ClosedLoad | SaturatedLoad):
        short, long = stretched(played, low), stretched(played, high)
    else:
        short, long = _play(setting, times, low), _play(setting, times, high)
    usual, shorter, longer = (figures_of(each, places, request.limits) for each in (played, short, long))
    notes = _played_notes(setting, played)
    return _forecast(setting, times, Runs(usual, shorter, longer), "events", notes, played)


def _play(setting: ResolvedServing, times: tuple[TabulatedSteps, ...], factor: float = 1.0) -> Played:
    return play_requests(
        setting.requests,
        setting.request.load,
        engines_of(setting, times, factor),
        transfer=transfer_of(setting),
        seed=setting.request.seed,
    )


def _played_notes(setting: ResolvedServing, played: Played) -> tuple[str, ...]:
    count = len(played.sent_seconds)
    window = "of all of them" if _is_whole(played) else "of those that ended in the steady part"
    return (f"{count:,} requests are played, step by step; figures are {window}",)


def _is_whole(played: Played) -> bool:
    first, last = float(played.sent_seconds.min()), float(played.finished_seconds.max())
    return played.measured_from_seconds <= first and played.measured_to_seconds >= last


# ---- joined ------------------------------------------------------------------------------------


def places_of(setting: ResolvedServing) -> Places:
    """What the engines have room for: of the pool that writes answers, where there are two."""
    engine = setting.engines[-1]
    count = engine.pool.replicas * engine.pool.engines_per_replica
    return Places(
        engines=count,
        sequences=count * engine.scheduling.max_sequences,
        kv_tokens=count * engine.scheduling.kv_tokens,
    )


def _forecast(
    setting: ResolvedServing,
    times: tuple[TabulatedSteps, ...],
    runs: Runs,
    method: ServingMethod,
    notes: Iterable[str],
    played: Played | None,
) -> ServingForecast:
    constants = load_serving_constants()
    per_token = latency_between(runs, "time_per_output_token", constants)
    fullest = max(setting.engines, key=lambda each: each.memory_bytes)
    devices = setting.deployment.num_devices
    return ServingForecast(
        model=setting.model.name,
        device=setting.device.name,
        cluster=setting.cluster.name,
        num_devices=devices,
        deployment=setting.deployment,
        load=setting.request.load,
        program=setting.program,
        dtype=setting.precision.format,
        kv_cache_dtype=setting.precision.cache_format,
        cost_model=setting.cost_model.name,
        method=method,
        time_to_first_token=latency_between(runs, "time_to_first_token", constants),
        time_per_output_token=per_token,
        end_to_end=latency_between(runs, "end_to_end", constants),
        rates=rates_between(runs, per_token, devices, _bill(setting, runs.usual.bound_by), constants),
        mean_batch=runs.usual.mean_batch,
        kv_tokens=setting.engines[-1].scheduling.kv_tokens,
        memory_bytes=fullest.memory_bytes,
        capacity_bytes=setting.device.memory_bytes,
        bound_by=runs.usual.bound_by,
        fits=setting.fits,
        assumptions=(*notes, *_assumptions(setting, times)),
        defaults=setting.defaults,
        played=played,
    )


def _bill(setting: ResolvedServing, bound_by: Mapping[str, float]) -> Bill:
    devices, price = setting.deployment.num_devices, setting.request.dollars_per_device_hour
    watts = device_watts(setting.device, 1.0 - bound_by.get("queue", 0.0), load_run_figures())
    return Bill(
        dollars_per_hour=None if price is None else price * devices,
        watts=None if watts is None else watts * devices,
    )


def _assumptions(setting: ResolvedServing, times: tuple[TabulatedSteps, ...]) -> tuple[str, ...]:
    engine = setting.engines[-1]
    found = [
        f"{setting.program.framework} takes {engine.memory_fraction:.3g} of a device's memory; weights and "
        "the largest step leave the rest to keys and values",
        "a request's tokens are known to the forecast, not to the scheduler",
        *dict.fromkeys(note for table in times for note in table.assumptions),
    ]
    if len(setting.engines) > 1:
        found.append("keys and values go from pool to pool over the outermost link, beside the steps")
    if setting.request.prefix_hit_share:
        found.append("cached parts of prompts are there from the beginning and take no room")
    spreads = load_serving_constants().spreads
    found += dict.fromkeys(f"intervals: {each.source}" for each in spreads.values())
    return tuple(found)


def with_other(answer: ServingForecast, other: ServingForecast) -> ServingForecast:
    """One form beside the other."""
    return replace(answer, other=other)
