"""Figures of runs, and all that is said with them, as a forecast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from perfcast.catalogs.runs import load_run_figures
from perfcast.core.forecast.serving import ServingForecast, ServingMethod
from perfcast.core.serving.load import OpenLoad, RecordedLoad
from perfcast.core.serving.outcome import Played
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.prediction.run.energy import device_watts
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.figures import LATENCIES, Places
from perfcast.prediction.serving.intervals import Bill, Runs, latency_between, rates_between
from perfcast.prediction.serving.limits import ShareWithin, within_of
from perfcast.prediction.serving.resolve import ResolvedServing
from perfcast.units import format_seconds


def places_of(setting: ResolvedServing) -> Places:
    """What the engines have room for: of the pool that writes answers, where there are two."""
    engine = setting.engines[-1]
    counts = [each.pool.replicas * each.pool.engines_per_replica for each in setting.engines]
    count = counts[-1]
    return Places(
        engines=count,
        all_engines=sum(counts),
        sequences=count * engine.scheduling.max_sequences,
        kv_tokens=count * engine.scheduling.kv_tokens,
    )


def forecast_of(
    setting: ResolvedServing,
    times: tuple[TabulatedSteps, ...],
    runs: Runs,
    method: ServingMethod,
    notes: Iterable[str],
    played: Played | None,
    share: ShareWithin,
) -> ServingForecast:
    """A forecast of three runs by one of the two forms.

    Args:
        notes: Of the form.
        played: The usual run; None of the closed form.
        share: Of its requests that keep the limits.
    """
    spreads = load_serving_constants().spreads_of(len(setting.engines))
    latencies = tuple(latency_between(runs, name, spreads[name]) for name in LATENCIES)
    first, per_token, whole = latencies
    within = within_of(share, setting.request.limits, latencies)
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
        dtype=setting.precision.name,
        kv_cache_dtype=setting.precision.cache_format,
        cost_model=setting.cost_model.name,
        method=method,
        time_to_first_token=first,
        time_per_output_token=per_token,
        end_to_end=whole,
        rates=rates_between(
            runs,
            per_token,
            devices,
            _bill(setting, runs.usual.bound_by),
            spreads["rates"],
            requests_per_second=_stream(setting),
            within=within,
        ),
        mean_batch=runs.usual.mean_batch,
        kv_tokens=setting.engines[-1].scheduling.kv_tokens,
        memory_bytes=fullest.memory_bytes,
        capacity_bytes=setting.device.memory_bytes,
        bound_by=runs.usual.bound_by,
        fits=setting.fits,
        assumptions=(*notes, *_assumptions(setting, times)),
        defaults=setting.defaults,
        within_limits=within,
        keeps_limits=None if within is None else within.value >= setting.request.limits.percentile,
        played=played,
    )


def _stream(setting: ResolvedServing) -> float | None:
    """Requests per second that come by themselves; None where the load follows the deployment."""
    load, requests = setting.request.load, setting.requests
    if isinstance(load, OpenLoad):
        return load.requests_per_second
    if not isinstance(load, RecordedLoad):
        return None
    span = float(requests.arrival_seconds[-1])
    return len(requests) / span if span > 0 else None


def _bill(setting: ResolvedServing, bound_by: Mapping[str, float]) -> Bill:
    devices, price = setting.deployment.num_devices, setting.request.dollars_per_device_hour
    watts = device_watts(setting.device, 1.0 - bound_by.get("queue", 0.0), load_run_figures())
    return Bill(
        dollars_per_hour=None if price is None else price * devices,
        watts=None if watts is None else watts * devices,
    )


def _assumptions(setting: ResolvedServing, times: tuple[TabulatedSteps, ...]) -> tuple[str, ...]:
    engine, requests = setting.engines[-1], setting.requests
    found = [
        f"{setting.program.framework} takes {engine.memory_fraction:.3g} of a device's memory; weights and "
        "the largest step leave the rest to keys and values",
        "a request's tokens are known to the forecast, not to the scheduler",
        *dict.fromkeys(note for table in times for note in table.assumptions),
    ]
    found += _on_the_way(setting)
    longest, most = int((requests.prompt_tokens + requests.answer_tokens).max()), setting.model.most_tokens
    if most is not None and longest > most:
        found.append(
            f"requests of up to {longest:,} tokens, beyond the {most:,} that the model was trained with"
        )
    if len(setting.engines) > 1:
        found.append("keys and values go from pool to pool over the outermost link, beside the steps")
    if setting.request.prefix_hit_share:
        found.append("cached parts of prompts are there from the beginning and take no room")
    spreads = load_serving_constants().spreads_of(len(setting.engines))
    found += dict.fromkeys(f"intervals: {each.source}" for each in spreads.values())
    return tuple(found)


def _on_the_way(setting: ResolvedServing) -> Iterator[str]:
    """What requests take beside their steps."""
    constants, name = load_serving_constants(), setting.program.framework
    if setting.request.request_seconds is None and constants.request_seconds[name]:
        seconds = format_seconds(constants.request_seconds[name])
        yield f"{seconds} of a request lie between client and engine, fitted to deployments of {name}"
    if len(setting.engines) > 1 and constants.handover_seconds[name]:
        seconds = format_seconds(constants.handover_seconds[name])
        yield f"{seconds} of a request lie between the pools, beside its keys and values, fitted likewise"
