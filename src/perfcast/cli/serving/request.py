"""From the options of ``perfcast serving`` to the requests that they ask: one, or the points of a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import click

from perfcast.cli.serving.options import MethodWord, ServingOptions
from perfcast.core.dtype import AUTO
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import complete_plan
from perfcast.core.plans.text import PlanValues
from perfcast.core.serving.deployment import Aggregated, Deployment, Disaggregated, Pool
from perfcast.core.serving.lengths import parse_lengths
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, RecordedLoad, SaturatedLoad
from perfcast.errors import InputError, PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.cluster import Cluster
    from perfcast.core.serving.requests import Requests
    from perfcast.prediction.request.serving import AskedMethod, EngineOptions, Limits, ServingRequest

#: What ``--sweep`` may vary, by the field of the options, and how a value is read.
SWEPT: Mapping[str, Callable[[str], object]] = {
    "concurrency": int,
    "request-rate": float,
    "input-length": parse_lengths,
    "output-length": parse_lengths,
    "replicas": int,
    "max-sequences": int,
    "max-step-tokens": int,
}
_METHODS: Mapping[MethodWord, AskedMethod] = {
    "events": "events",
    "closed-form": "closed_form",
    "both": "both",
}
#: What a plan of serving may say.
_PLAN_FIELDS = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
)
_MOST_POINTS = 200


def build_request(own: ServingOptions, requests: Requests | None = None) -> ServingRequest:
    """A model under load.

    Args:
        requests: What the file of requests holds, where it was read before.

    Raises:
        InputError: Unknown names, values that no request has.
        UsageError: Options that exclude each other, or of which one is missing.
    """
    from perfcast.prediction.request.serving import ServingRequest
    from perfcast.prediction.serving.request_files import read_requests
    from perfcast.verbs.shared.cost_model import find_cost_model
    from perfcast.verbs.shared.run import read_price

    load = _load(own)
    if own.requests is not None and (own.input_length or own.output_length):
        raise click.UsageError(
            "--requests: a file has its own lengths; leave --input-length, --output-length"
        )
    if own.requests is None and (own.input_length is None or own.output_length is None):
        raise click.UsageError(
            "how long are requests? give --input-length and --output-length, or --requests"
        )
    deployment = _deployment(own)
    cluster = _cluster(own, deployment)
    if deployment is not None:
        deployment = _with_replicas(own, deployment, cluster)
    return ServingRequest(
        model=own.model,
        cluster=cluster,
        load=load,
        deployment=deployment,
        prompts=own.input_length,
        answers=own.output_length,
        requests=requests or (None if own.requests is None else read_requests(own.requests)),
        num_requests=own.num_requests,
        measure=own.measure,
        prefix_hit_share=own.prefix_hit_share,
        engine=_engine(own),
        limits=_limits(own),
        dtype=own.dtype or AUTO,
        kv_cache_dtype=own.kv_cache_dtype,
        cost_model=find_cost_model(own.cost_model, cluster.device),
        method=_METHODS[own.method],
        seed=own.seed,
        dollars_per_device_hour=None if own.price is None else read_price(own.price, cluster.device)[0],
    )


def build_sweep(own: ServingOptions) -> tuple[tuple[Mapping[str, str], ServingRequest], ...]:
    """Every combination of the values of ``--sweep``: what is varied, as text, and the request.

    Raises:
        InputError, UsageError: As ``build_request``, or of a sweep that is none.
    """
    axes = [_axis(text) for text in own.sweep]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise click.UsageError(f"--sweep: {names[0]} is given twice")
    if math.prod(len(texts) for _, texts in axes) > _MOST_POINTS:
        raise click.UsageError(f"--sweep: more than {_MOST_POINTS} points")
    points, requests = [], None
    for texts in product(*(texts for _, texts in axes)):
        varied = dict(zip(names, texts, strict=True))
        fields = {name.replace("-", "_"): _value(name, text) for name, text in varied.items()}
        request = build_request(replace(own, **fields), requests)  # type: ignore[arg-type]
        requests = request.requests
        points.append((varied, request))
    return tuple(points)


def _axis(text: str) -> tuple[str, list[str]]:
    name, equals, listed = text.partition("=")
    texts = [each.strip() for each in listed.split(",")]
    if not equals or not all(texts):
        raise click.UsageError(f"--sweep {text}: NAME=V,V,…, such as concurrency=1,4,16")
    if name not in SWEPT:
        raise UnknownNameError("axis of a sweep", name, SWEPT, f"Known: {', '.join(SWEPT)}.")
    return name, list(dict.fromkeys(texts))


def _value(name: str, text: str) -> object:
    try:
        return SWEPT[name](text)
    except ValueError:
        raise InputError(f"--sweep {name}: '{text}' is no value of --{name}") from None


def _load(own: ServingOptions) -> Load:
    """The one load that is asked for; a file's own times where none is."""
    asked = {
        "--concurrency": own.concurrency is not None,
        "--request-rate": own.request_rate is not None,
        "--saturated": own.saturated,
    }
    given = [option for option, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{', '.join(given)}: choose one load")
    if own.burstiness is not None and own.request_rate is None:
        raise click.UsageError("--burstiness: of --request-rate")
    if own.concurrency is not None:
        return ClosedLoad(own.concurrency)
    if own.request_rate is not None:
        return OpenLoad(own.request_rate, 1.0 if own.burstiness is None else own.burstiness)
    if own.saturated:
        return SaturatedLoad()
    if own.requests is None:
        raise click.UsageError(
            "how do requests come? give --concurrency, --request-rate, --saturated or --requests FILE"
        )
    return RecordedLoad()


def _limits(own: ServingOptions) -> Limits:
    from perfcast.prediction.request.serving import Limits

    if own.percentile is not None and own.max_ttft is own.max_tpot is own.max_latency is None:
        raise click.UsageError("--percentile: of --max-ttft, --max-tpot or --max-latency")
    return Limits(
        time_to_first_token_seconds=own.max_ttft,
        time_per_output_token_seconds=own.max_tpot,
        end_to_end_seconds=own.max_latency,
        percentile=Limits.percentile if own.percentile is None else own.percentile,
    )


def _engine(own: ServingOptions) -> EngineOptions:
    from perfcast.prediction.request.serving import EngineOptions

    return EngineOptions(
        framework=own.framework,
        version=own.framework_version,
        max_sequences=own.max_sequences,
        max_step_tokens=own.max_step_tokens,
        chunks_prompts=own.chunked_prefill,
        block_tokens=own.block_tokens,
        memory_fraction=own.memory_fraction,
        cuda_graphs=own.cuda_graphs,
        host_seconds=own.host_seconds,
        speculation=own.speculate,
        expert_load=own.expert_load,
        rank_wait_steps=own.rank_wait_steps,
        polls_every_steps=own.polls_every_steps,
    )


# ---- where it runs -----------------------------------------------------------------------------


def _deployment(own: ServingOptions) -> Deployment | None:
    """What is said of it, with one replica where no number is; None where nothing is."""
    split = {
        "--prefill-plan": own.prefill_plan,
        "--decode-plan": own.decode_plan,
        "--prefill-replicas": own.prefill_replicas,
        "--decode-replicas": own.decode_replicas,
    }
    given = [option for option, value in split.items() if value is not None]
    if not given:
        if own.plan is None:
            if own.replicas is not None:
                raise click.UsageError("--replicas: of a --plan")
            return None
        return Aggregated(Pool(_plan("--plan", own.plan), own.replicas or 1))
    if own.plan is not None or own.replicas is not None:
        raise click.UsageError(f"--plan, --replicas: of one pool; {', '.join(given)} make two")
    if own.prefill_plan is None or own.decode_plan is None:
        raise click.UsageError("give both --prefill-plan and --decode-plan")
    return Disaggregated(
        Pool(_plan("--prefill-plan", own.prefill_plan), own.prefill_replicas or 1),
        Pool(_plan("--decode-plan", own.decode_plan), own.decode_replicas or 1),
    )


def _plan(option: str, values: PlanValues) -> Plan:
    """Of one replica; what a plan of serving cannot say is refused."""
    from perfcast.core.plans.text import KEY_OF_FIELD

    others = [KEY_OF_FIELD.get(name, name) for name in values if name not in _PLAN_FIELDS]
    if others:
        raise PlanError(f"{option}: {', '.join(others)}: a replica has tp, pp, dp, ep and etp")
    return complete_plan({"sequence_parallel": False, **values}, None, None, 1, "decode")


def _cluster(own: ServingOptions, deployment: Deployment | None) -> Cluster:
    from perfcast.prediction.names import resolve_device
    from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device, has_cluster
    from perfcast.prediction.route import lone_cluster

    wanted = own.devices
    if wanted is not None and wanted < 1:
        raise InputError(f"--devices {wanted}: at least one")
    if wanted is None and deployment is not None:
        wanted = deployment.num_devices
    if own.cluster is not None:
        if own.cluster.rpartition(":")[1] == ":":
            wanted = own.devices
        return cluster_by_name(own.cluster, wanted, own.device)
    if own.device is None:
        raise click.UsageError("where does it run? give --device NAME, or --cluster NAME:N")
    if (wanted or 1) == 1 and not has_cluster(resolve_device(own.device)):
        return lone_cluster(own.device)
    return cluster_of_device(own.device, wanted or 1)


def _with_replicas(own: ServingOptions, deployment: Deployment, cluster: Cluster) -> Deployment:
    """As many replicas as the devices allow, where no number is said."""
    if own.replicas is not None or isinstance(deployment, Disaggregated):
        return deployment
    count = cluster.num_devices // deployment.pool.plan.world_size
    return Aggregated(replace(deployment.pool, replicas=max(count, 1)))
