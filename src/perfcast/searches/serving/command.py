"""A deployment as the ``perfcast serving`` that forecasts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Disaggregated
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.prediction.request.command import name_of_cost_model
from perfcast.prediction.request.serving import ServingRequest
from perfcast.units import MILLI

_KEYS = {"tp": "tensor_parallel", "pp": "pipeline_parallel", "dp": "data_parallel", "ep": "expert_parallel"}


def serving_command(request: ServingRequest, model: str, cluster: str) -> str:
    """Everything that defaults could decide otherwise is stated.

    Args:
        model, cluster: As the command line names them, the cluster with its devices.
    """
    words = ["perfcast", "serving", model, "--cluster", cluster]
    for option, value in _options(request):
        words += [option, value]
    return shlex.join(words)


def plan_text(plan: Plan) -> str:
    """Degrees above 1, as an option takes them; tp=1 where there is none."""
    found = [f"{key}={getattr(plan, name)}" for key, name in _KEYS.items() if getattr(plan, name) > 1]
    return ",".join(found) or "tp=1"


def _options(request: ServingRequest) -> Iterator[tuple[str, str]]:
    yield from _deployment(request)
    yield from _requests(request)
    yield "--dtype", request.dtype
    if request.kv_cache_dtype is not None:
        yield "--kv-cache-dtype", request.kv_cache_dtype
    yield from _engine(request)
    if request.cost_model is not None:
        yield "--cost-model", name_of_cost_model(request.cost_model)
    if request.dollars_per_device_hour is not None:
        yield "--price", f"{request.dollars_per_device_hour:g}"


def _requests(request: ServingRequest) -> Iterator[tuple[str, str]]:
    assert request.prompts is not None  # a search has lengths
    assert request.answers is not None
    yield "--input-length", request.prompts.text
    yield "--output-length", request.answers.text
    if isinstance(request.load, ClosedLoad):
        yield "--concurrency", str(request.load.concurrency)
    elif isinstance(request.load, OpenLoad):
        yield "--request-rate", f"{request.load.requests_per_second:g}"
        if request.load.burstiness != 1:
            yield "--burstiness", f"{request.load.burstiness:g}"
    stated = {
        "--num-requests": request.num_requests,
        "--prefix-hit-share": request.prefix_hit_share or None,
        "--seed": request.seed or None,
    }
    for option, value in stated.items():
        if value is not None:
            yield option, f"{value:.12g}"
    yield "--measure", request.measure


def _deployment(request: ServingRequest) -> Iterator[tuple[str, str]]:
    deployment = request.deployment
    assert deployment is not None  # a search names it
    if isinstance(deployment, Disaggregated):
        yield "--prefill-plan", plan_text(deployment.prefill.plan)
        yield "--prefill-replicas", str(deployment.prefill.replicas)
        yield "--decode-plan", plan_text(deployment.decode.plan)
        yield "--decode-replicas", str(deployment.decode.replicas)
    else:
        yield "--plan", plan_text(deployment.pool.plan)
        yield "--replicas", str(deployment.pool.replicas)


def _engine(request: ServingRequest) -> Iterator[tuple[str, str]]:
    engine = request.engine
    stated = {
        "--framework": engine.framework,
        "--framework-version": engine.version,
        "--max-sequences": engine.max_sequences,
        "--max-step-tokens": engine.max_step_tokens,
        "--block-tokens": engine.block_tokens,
        "--memory-fraction": engine.memory_fraction,
        "--rank-wait-steps": engine.rank_wait_steps,
        "--polls-every-steps": engine.polls_every_steps,
    }
    for option, value in stated.items():
        if value is not None:
            yield option, f"{value:g}" if isinstance(value, float) else str(value)
    if engine.speculation is not None:
        yield "--speculate", f"{engine.speculation.drafted_tokens}:{engine.speculation.acceptance:g}"
    if engine.expert_load != 1:
        yield "--expert-load", f"{engine.expert_load:g}"
    if engine.host_seconds is not None:
        yield "--host-seconds", f"{engine.host_seconds / MILLI:g}ms"
