"""From the question of ``perfcast serving`` to the requests that it asks: one, or the points of a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import complete_plan
from perfcast.core.plans.text import PlanValues, parse_plan
from perfcast.core.serving.deployment import Aggregated, Deployment, Disaggregated, Pool
from perfcast.core.serving.lengths import parse_lengths
from perfcast.core.serving.load import MEASURED_WINDOWS, ClosedLoad, Load, RecordedLoad, SaturatedLoad
from perfcast.core.words import known_word
from perfcast.errors import InputError, PlanError, QuestionError, UnknownNameError
from perfcast.ranges import excerpt
from perfcast.verbs.question import check_question, option_of
from perfcast.verbs.serving.question import METHOD_WORDS, MethodWord, ServingQuestion
from perfcast.verbs.shared.step import format_of
from perfcast.verbs.shared.values import check_fraction, parse_time

if TYPE_CHECKING:
    from perfcast.core.serving.requests import Requests
    from perfcast.prediction.request.serving import AskedMethod, EngineOptions, Limits, ServingRequest


def _checked_lengths(text: str) -> str:
    parse_lengths(text)
    return text


#: What ``--sweep`` may vary, by the option, and how a value is read.
SWEPT: Mapping[str, Callable[[str], object]] = {
    "concurrency": int,
    "request-rate": float,
    "input-length": _checked_lengths,
    "output-length": _checked_lengths,
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
_LONGEST_VALUE = 60
_LIMITS = ("max_ttft", "max_tpot", "max_latency")
#: Seconds whose steps a timeline shows where nothing is said.
_WINDOW = (0.0, 10.0)


def request_of(
    asked: ServingQuestion, requests: Requests | None = None, *, with_timeline: bool = False
) -> ServingRequest:
    """A model under load.

    Args:
        requests: What the file of requests holds, where it was read before.
        with_timeline: Whether steps are kept even where no window says which.

    Raises:
        InputError: Unknown names, values that no request has.
        QuestionError: Options that exclude each other, or of which one is missing.
    """
    from perfcast.prediction.request.serving import ServingRequest
    from perfcast.prediction.serving.request_files import read_requests
    from perfcast.verbs.shared.cost_model import find_cost_model
    from perfcast.verbs.shared.run import read_price

    prompts, answers = asked.lengths("input_length"), asked.lengths("output_length")
    load = _load(asked)
    if asked.requests is not None and (prompts or answers):
        raise QuestionError("--requests: a file has its own lengths; leave --input-length, --output-length")
    if asked.requests is None and (prompts is None or answers is None):
        raise QuestionError("how long are requests? give --input-length and --output-length, or --requests")
    deployment = _deployment(asked)
    cluster = _cluster(asked, deployment)
    if deployment is not None:
        deployment = _with_replicas(asked, deployment, cluster)
    return ServingRequest(
        model=asked.model,
        cluster=cluster,
        load=load,
        deployment=deployment,
        prompts=prompts,
        answers=answers,
        requests=requests or (None if asked.requests is None else read_requests(asked.requests)),
        num_requests=asked.num_requests,
        measure=known_word("part of a run", asked.text("measure"), MEASURED_WINDOWS),
        prefix_hit_share=asked.number("prefix_hit_share"),
        engine=_engine(asked),
        limits=_limits(asked),
        dtype=format_of(asked.dtype) or AUTO,
        kv_cache_dtype=asked.kv_cache_dtype,
        cost_model=find_cost_model(asked.cost_model, cluster.device),
        method=_METHODS[known_word("method", asked.text("method"), METHOD_WORDS)],
        seed=asked.count("seed"),
        window=_window(asked.window) or (_WINDOW if with_timeline else None),
        dollars_per_device_hour=None
        if asked.price is None
        else read_price(str(asked.price), cluster.device)[0],
    )


def sweep_of(asked: ServingQuestion) -> tuple[tuple[Mapping[str, str], ServingRequest], ...]:
    """Every combination of the values of ``--sweep``: what is varied, as text, and the request.

    Raises:
        InputError, QuestionError: As ``request_of``, or of a sweep that is none.
    """
    axes = [_axis(text) for text in asked.sweep]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise QuestionError(f"--sweep: {names[0]} is given twice")
    if math.prod(len(texts) for _, texts in axes) > _MOST_POINTS:
        raise QuestionError(f"--sweep: more than {_MOST_POINTS} points")
    points, requests = [], None
    for texts in product(*(texts for _, texts in axes)):
        varied = dict(zip(names, texts, strict=True))
        fields = {name.replace("-", "_"): _value(name, text) for name, text in varied.items()}
        point = replace(asked, **fields)  # type: ignore[arg-type]
        check_question(point, option_of)
        request = request_of(point, requests)
        requests = request.requests
        points.append((varied, request))
    return tuple(points)


def _axis(text: str) -> tuple[str, list[str]]:
    name, equals, listed = text.partition("=")
    texts = [each.strip() for each in listed.split(",")]
    if not equals or not all(texts):
        raise QuestionError(f"--sweep {text}: NAME=V,V,…, such as concurrency=1,4,16")
    if name not in SWEPT:
        raise UnknownNameError("axis of a sweep", name, SWEPT, f"Knasked: {', '.join(SWEPT)}.")
    return name, list(dict.fromkeys(texts))


def _value(name: str, text: str) -> object:
    try:
        return SWEPT[name](text[:_LONGEST_VALUE])
    except ValueError:
        raise InputError(f"--sweep {name}: {excerpt(text)} is no value of --{name}") from None


def _load(asked: ServingQuestion) -> Load:
    """The one load that is asked for; a file's own times where none is."""
    given = asked.said(("concurrency", "request_rate", "saturated"))
    if len(given) > 1:
        raise QuestionError(f"{', '.join(given)}: choose one load")
    if asked.burstiness is not None and asked.request_rate is None:
        raise QuestionError("--burstiness: of --request-rate")
    if asked.concurrency is not None:
        return ClosedLoad(asked.concurrency)
    if asked.request_rate is not None:
        return asked.open_load(asked.request_rate)
    if asked.saturated:
        return SaturatedLoad()
    if asked.requests is None:
        raise QuestionError(
            "how do requests come? give --concurrency, --request-rate, --saturated or --requests FILE"
        )
    return RecordedLoad()


def _limits(asked: ServingQuestion) -> Limits:
    from perfcast.prediction.request.serving import Limits

    limits = {name: parse_time(option_of(name), getattr(asked, name)) for name in _LIMITS}
    percentile = check_fraction("--percentile", asked.percentile)
    if percentile is not None and not any(limits.values()):
        raise QuestionError("--percentile: of --max-ttft, --max-tpot or --max-latency")
    return Limits(
        time_to_first_token_seconds=limits["max_ttft"],
        time_per_output_token_seconds=limits["max_tpot"],
        end_to_end_seconds=limits["max_latency"],
        percentile=Limits.percentile if percentile is None else percentile,
    )


def _engine(asked: ServingQuestion) -> EngineOptions:
    return replace(
        asked.engine_options(asked.framework),
        max_sequences=asked.max_sequences,
        max_step_tokens=asked.max_step_tokens,
        chunks_prompts=asked.chunked_prefill,
        block_tokens=asked.block_tokens,
        cuda_graphs=asked.cuda_graphs,
    )


def _window(text: str | None) -> tuple[float, float] | None:
    """``2:5``: from when to when, in seconds."""
    if text is None:
        return None
    begin, colon, end = text.partition(":")
    try:
        window = (float(begin), float(end if colon else ""))
    except ValueError:
        window = (0.0, 0.0)
    if not 0 <= window[0] < window[1] < math.inf:
        raise InputError(f"--window {text}: FROM:TO in seconds, such as 2:5")
    return window


# ---- where it runs -----------------------------------------------------------------------------


def _deployment(asked: ServingQuestion) -> Deployment | None:
    """What is said of it, with one replica where no number is; None where nothing is."""
    given = asked.said(("prefill_plan", "decode_plan", "prefill_replicas", "decode_replicas"))
    if not given:
        if asked.plan is None:
            if asked.replicas is not None:
                raise QuestionError("--replicas: of a --plan")
            return None
        return Aggregated(Pool(_plan(asked, "plan"), asked.replicas or 1))
    if asked.plan is not None or asked.replicas is not None:
        raise QuestionError(f"--plan, --replicas: of one pool; {', '.join(given)} make two")
    if asked.prefill_plan is None or asked.decode_plan is None:
        raise QuestionError("give both --prefill-plan and --decode-plan")
    return Disaggregated(
        Pool(_plan(asked, "prefill_plan"), asked.prefill_replicas or 1),
        Pool(_plan(asked, "decode_plan"), asked.decode_replicas or 1),
    )


def _plan(asked: ServingQuestion, name: str) -> Plan:
    """Of one replica; what a plan of serving cannot say is refused."""
    from perfcast.core.plans.text import KEY_OF_FIELD

    option = option_of(name)
    values: PlanValues = parse_plan(asked.text(name), option)
    others = [KEY_OF_FIELD.get(name, name) for name in values if name not in _PLAN_FIELDS]
    if others:
        raise PlanError(f"{option}: {', '.join(others)}: a replica has tp, pp, dp, ep and etp")
    return complete_plan({"sequence_parallel": False, **values}, None, None, 1, "decode")


def _cluster(asked: ServingQuestion, deployment: Deployment | None) -> Cluster:
    from perfcast.prediction.names import resolve_device
    from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device, has_cluster
    from perfcast.prediction.route import lone_cluster

    wanted = asked.devices
    if wanted is not None and wanted < 1:
        raise InputError(f"--devices {wanted}: at least one")
    if wanted is None and deployment is not None:
        wanted = deployment.num_devices
    if isinstance(asked.cluster, Cluster):
        return asked.cluster
    device = asked.device.name if isinstance(asked.device, Device) else asked.device
    if asked.cluster is not None:
        if asked.cluster.rpartition(":")[1] == ":":
            wanted = asked.devices
        return cluster_by_name(asked.cluster, wanted, device)
    if device is None:
        raise QuestionError("where does it run? give --device NAME, or --cluster NAME:N")
    if (wanted or 1) == 1 and not has_cluster(resolve_device(device)):
        return lone_cluster(device)
    return cluster_of_device(device, wanted or 1)


def _with_replicas(asked: ServingQuestion, deployment: Deployment, cluster: Cluster) -> Deployment:
    """As many replicas as the devices allow, where no number is said."""
    if asked.replicas is not None or isinstance(deployment, Disaggregated):
        return deployment
    count = cluster.num_devices // deployment.pool.plan.world_size
    return Aggregated(replace(deployment.pool, replicas=max(count, 1)))
