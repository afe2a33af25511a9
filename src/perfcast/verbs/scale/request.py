"""From the question of ``perfcast scale`` to the one request that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import complete_plan
from perfcast.errors import QuestionError
from perfcast.verbs.question import each
from perfcast.verbs.scale.question import ScaledMode, ScaleQuestion
from perfcast.verbs.shared.step import format_of

if TYPE_CHECKING:
    from perfcast.cost.model import CostModel
    from perfcast.prediction.model import NamedModel
    from perfcast.prediction.request.batches import BatchesRequest
    from perfcast.prediction.request.scale import ScaleRequest

_MODES: dict[ScaledMode, tuple[Mode, ...]] = {
    "prefill": ("prefill",),
    "decode": ("decode",),
    "serve": ("prefill", "decode"),
}


_OF_TRAINING = (
    "micro_batch_size",
    "compile",
    "weak",
    "simulate",
    "batch_size",
    "sequence_length",
    "lora",
    "qlora",
    "freeze",
)


def training_request_of(model: str, asked: ScaleQuestion) -> ScaleRequest:
    """A training over numbers of devices.

    Raises:
        InputError: Values that no curve can have.
        QuestionError: No devices, or a cluster that counts its asked.
    """
    from perfcast.prediction.request.scale import ScaleRequest

    _refuse(asked, ("batch_sizes", "contexts", "kv_cache_dtype"), "of inference (--mode serve)")
    devices, plan = each(asked.devices), asked.plan_values
    if not devices:
        raise QuestionError("on how many? give --devices, such as 8,64,512")
    for name in asked.clusters:
        if ":" in name:
            raise QuestionError(f"--cluster {name}: how many devices is said by --devices")
    if asked.micro_batch_size and asked.batch_size and not plan:
        raise QuestionError("--micro-batch-size: without --plan, the smallest plan that fits has its own")
    micro = asked.micro_batch_size or 1

    def rule(count: int, batch: int) -> Plan:
        return complete_plan(plan, count, batch, micro, "train")

    return ScaleRequest(
        model=model,
        clusters=asked.clusters,
        devices=devices,
        batch_size=asked.batch_size or micro * max(devices),
        is_weak=asked.weak,
        rule=rule if plan else None,
        dtype=format_of(asked.dtype) or AUTO,
        framework=asked.framework,
        compiles=asked.compile,
        recompute_is_open=bool(plan) and "recompute" not in plan,
        tuning=asked.tuning(),
        sequence_length=asked.sequence_length,
        cost_model=_cost_model(asked),
        method="simulated" if asked.simulate else "closed_form",
    )


def inference_request_of(name: str, asked: ScaleQuestion) -> BatchesRequest:
    """Inference over batch sizes and contexts.

    Raises:
        InputError: Unknown names, a plan that the cluster cannot follow.
        QuestionError: Options of training, several clusters or numbers of devices.
    """
    from perfcast.prediction.model import read_model
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.prediction.request.batches import BatchesRequest
    from perfcast.prediction.sweep.batches import on_fewest_devices

    _refuse(asked, _OF_TRAINING, "of training; inference has --batch-sizes and --contexts")
    if len(asked.clusters) > 1:
        raise QuestionError("inference is swept on one --cluster")
    devices = each(asked.devices)
    if len(devices) > 1:
        raise QuestionError("inference is swept over batches and contexts on one number of --devices")
    count = devices[0] if devices else None
    cluster_name = asked.clusters[0]
    if ":" in cluster_name:
        cluster = cluster_by_name(cluster_name, count)
        plan = _serving_plan(asked, cluster.num_devices)
    elif not asked.plan_values:
        plan, cluster = None, cluster_by_name(cluster_name, count or 1)
    else:
        plan = _serving_plan(asked, count)
        assert plan is not None  # one is asked for
        cluster = cluster_by_name(cluster_name, plan.world_size)
    model = read_model(name)
    request = BatchesRequest(
        model=model,
        cluster=cluster,
        plan=plan,
        batch_sizes=each(asked.batch_sizes),
        context_lengths=each(asked.contexts) or (_usual_context(model),),
        modes=_MODES[asked.scaled_mode],
        dtype=format_of(asked.dtype) or AUTO,
        kv_cache_dtype=asked.kv_cache_dtype,
        framework=asked.framework,
        cost_model=_cost_model(asked),
    )
    if plan is None and count is None and ":" not in cluster_name:
        return on_fewest_devices(request, lambda number: cluster_by_name(cluster_name, number))
    return request


def _serving_plan(asked: ScaleQuestion, devices: int | None) -> Plan | None:
    """None where nothing is said of it: the smallest that fits."""
    if not asked.plan_values:
        return None
    return complete_plan({"sequence_parallel": False, **asked.plan_values}, devices, None, 1, "decode")


def _usual_context(model: NamedModel) -> int:
    """As long as every verb takes a sequence where none is asked for."""
    return model.sequence_length(model.usual_sequence_length)


def _cost_model(asked: ScaleQuestion) -> str | CostModel | None:
    from perfcast.catalogs.clusters import load_cluster_entry
    from perfcast.verbs.shared.cost_model import find_cost_model

    stem = asked.clusters[0].partition(":")[0]
    return find_cost_model(asked.cost_model, load_cluster_entry(stem).device)


def _refuse(asked: ScaleQuestion, names: tuple[str, ...], reason: str) -> None:
    named = asked.said(names)
    if named:
        raise QuestionError(f"{', '.join(named)}: {reason}")
