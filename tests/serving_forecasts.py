"""Forecasts of serving with made-up step times, played for real."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from made_up_programs import KERNELS
from made_up_serving import LinearSteps, drawn_requests, scheduling
from perfcast.core.arrays import Floats
from perfcast.core.forecast.fit import fit_of
from perfcast.core.forecast.serving import Between, Latency, ServingForecast, ServingMethod, ServingRates
from perfcast.core.forecast.serving_sweep import ServingSweep, SweptPoint
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Pool
from perfcast.core.serving.load import ClosedLoad, Load
from perfcast.core.serving.outcome import Played
from perfcast.simulate.serving.play import Engines, play_requests
from perfcast.units import GIB

KV_TOKENS = 40_000


def played_requests(load: Load, num_requests: int = 200, tensor_parallel: int = 2, seed: int = 0) -> Played:
    """One replica under a load."""
    engines = Engines(
        Pool(Plan(tensor_parallel=tensor_parallel)),
        scheduling(kv_tokens=KV_TOKENS, max_sequences=32),
        LinearSteps(fixed=16e-3 / tensor_parallel),
    )
    requests = drawn_requests(num_requests, prompt=1024, answer=128, seed=seed)
    return play_requests(requests, load, engines, seed=seed)


def between(value: float, spread: float = 0.1) -> Between:
    """A figure with an interval of its size."""
    return Between(value, value * (1 - spread), value * (1 + spread))


def latency(seconds: Floats) -> Latency:
    """Of requests."""
    known = seconds[np.isfinite(seconds)]
    median, p90, p99 = np.quantile(known, (0.5, 0.9, 0.99)).tolist()
    return Latency(between(float(known.mean())), between(median), between(p90), between(p99))


def serving_forecast(
    load: Load | None = None, *, tensor_parallel: int = 2, method: ServingMethod = "events", seed: int = 0
) -> ServingForecast:
    """A deployment of one replica under a load, by default of 64 clients."""
    load = load or ClosedLoad(64)
    played = played_requests(load, tensor_parallel=tensor_parallel, seed=seed)
    seconds = float(np.nanmax(played.finished_seconds))
    written, read = float(played.answer_tokens.sum()) / seconds, float(played.prompt_tokens.sum()) / seconds
    each = latency(played.time_per_output_token_seconds)
    rates = ServingRates(
        requests_per_second=between(len(played.sent_seconds) / seconds),
        output_tokens_per_second=between(written),
        input_tokens_per_second=between(read),
        output_tokens_per_second_per_device=between(written / tensor_parallel),
        output_tokens_per_second_per_user=between(1 / each.mean.value),
        goodput_requests_per_second=between(0.8 * len(played.sent_seconds) / seconds),
        dollars_per_million_input_tokens=between(1e6 * 4 / 3600 / read),
        dollars_per_million_output_tokens=between(1e6 * 4 / 3600 / written),
        joules_per_million_input_tokens=between(1e6 * 1400 / read),
        joules_per_million_output_tokens=between(1e6 * 1400 / written),
    )
    total = sum(played.seconds_by_bound.values())
    bounds = {name: 0.9 * part / total for name, part in played.seconds_by_bound.items()}
    return ServingForecast(
        model="a-model",
        device="h100-sxm",
        cluster="a-cluster",
        num_devices=tensor_parallel,
        deployment=Aggregated(Pool(Plan(tensor_parallel=tensor_parallel))),
        load=load,
        program=KERNELS,
        dtype="fp8",
        kv_cache_dtype="fp8",
        cost_model="learned",
        method=method,
        time_to_first_token=latency(played.time_to_first_token_seconds),
        time_per_output_token=each,
        end_to_end=latency(played.end_to_end_seconds),
        rates=rates,
        mean_batch=24.5,
        kv_tokens=KV_TOKENS,
        memory_bytes=70 * GIB,
        capacity_bytes=80 * GIB,
        bound_by=bounds | {"kv_memory": 0.06, "queue": 0.04},
        fits=(fit_of(70 * GIB, 80 * GIB),),
        assumptions=("every client reads its answer to the end",),
        defaults=("weights in fp8",),
        played=played if method == "events" else None,
    )


def with_both_forms() -> ServingForecast:
    """Events, with the steady state beside them."""
    formula = replace(serving_forecast(seed=1), method="closed_form", played=None)
    return replace(serving_forecast(), other=formula)


def sweep() -> ServingSweep:
    """Two deployments, each under four loads, and one that has no forecast."""
    points = [
        SweptPoint(
            {"plan": f"tp={degree}", "concurrency": str(clients)},
            serving_forecast(ClosedLoad(clients), tensor_parallel=degree),
        )
        for degree in (2, 4)
        for clients in (1, 4, 16, 64)
    ]
    none = SweptPoint({"plan": "tp=3", "concurrency": "1"}, None, "8 key heads are no multiple of tp=3")
    return ServingSweep((*points, none))
