"""From the options of ``perfcast scale`` to the one request that they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.scale.options import ScaledMode, ScaleOptions
from perfcast.core.dtype import AUTO
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import complete_plan

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


def build_request(model: str, own: ScaleOptions) -> ScaleRequest:
    """A training over numbers of devices.

    Raises:
        InputError: Values that no curve can have.
        UsageError: No devices, or a cluster that counts its own.
    """
    from perfcast.prediction.request.scale import ScaleRequest

    _refuse(
        {
            "--batch-sizes": own.batch_sizes,
            "--contexts": own.contexts,
            "--kv-cache-dtype": own.kv_cache_dtype,
        },
        "of inference (--mode serve)",
    )
    if not own.devices:
        raise click.UsageError("on how many? give --devices, such as 8,64,512")
    for name in own.clusters:
        if ":" in name:
            raise click.UsageError(f"--cluster {name}: how many devices is said by --devices")
    if own.micro_batch_size and own.batch_size and not own.plan:
        raise click.UsageError("--micro-batch-size: without --plan, the smallest plan that fits has its own")
    micro = own.micro_batch_size or 1

    def rule(count: int, batch: int) -> Plan:
        return complete_plan(own.plan, count, batch, micro, "train")

    return ScaleRequest(
        model=model,
        clusters=own.clusters,
        devices=own.devices,
        batch_size=own.batch_size or micro * max(own.devices),
        is_weak=not own.is_strong,
        rule=rule if own.plan else None,
        dtype=own.dtype or AUTO,
        framework=own.framework,
        compiles=own.compile,
        recompute_is_open=bool(own.plan) and "recompute" not in own.plan,
        tuning=own.tuning(),
        sequence_length=own.sequence_length,
        cost_model=_cost_model(own),
        method="simulated" if own.simulated else "closed_form",
    )


def build_serving_request(name: str, own: ScaleOptions) -> BatchesRequest:
    """Inference over batch sizes and contexts.

    Raises:
        InputError: Unknown names, a plan that the cluster cannot follow.
        UsageError: Options of training, several clusters or numbers of devices.
    """
    from perfcast.prediction.model import read_model
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.prediction.request.batches import BatchesRequest
    from perfcast.prediction.sweep.batches import on_fewest_devices

    _refuse(
        {
            "--micro-batch-size": own.micro_batch_size,
            "--compile": own.compile,
            "--weak": not own.is_strong,
            "--simulate": own.simulated,
            "--batch-size": own.batch_size,
            "--sequence-length": own.sequence_length,
            "--lora": own.lora is not None,
            "--qlora": own.qlora is not None,
            "--freeze": own.freeze is not None,
        },
        "of training; inference has --batch-sizes and --contexts",
    )
    if len(own.clusters) > 1:
        raise click.UsageError("inference is swept on one --cluster")
    if len(own.devices) > 1:
        raise click.UsageError("inference is swept over batches and contexts on one number of --devices")
    asked = own.devices[0] if own.devices else None
    cluster_name = own.clusters[0]
    if ":" in cluster_name:
        cluster = cluster_by_name(cluster_name, asked)
        plan = _serving_plan(own, cluster.num_devices)
    elif not own.plan:
        plan, cluster = None, cluster_by_name(cluster_name, asked or 1)
    else:
        plan = _serving_plan(own, asked)
        assert plan is not None  # one is asked for
        cluster = cluster_by_name(cluster_name, plan.world_size)
    model = read_model(name)
    request = BatchesRequest(
        model=model,
        cluster=cluster,
        plan=plan,
        batch_sizes=own.batch_sizes,
        context_lengths=own.contexts or (_usual_context(model),),
        modes=_MODES[own.mode],
        dtype=own.dtype or AUTO,
        kv_cache_dtype=own.kv_cache_dtype,
        framework=own.framework,
        cost_model=_cost_model(own),
    )
    if plan is None and asked is None and ":" not in cluster_name:
        return on_fewest_devices(request, lambda count: cluster_by_name(cluster_name, count))
    return request


def _serving_plan(own: ScaleOptions, devices: int | None) -> Plan | None:
    """None where nothing is said of it: the smallest that fits."""
    if not own.plan:
        return None
    return complete_plan({"sequence_parallel": False, **own.plan}, devices, None, 1, "decode")


def _usual_context(model: NamedModel) -> int:
    """As long as every verb takes a sequence where none is asked for."""
    return model.sequence_length(model.usual_sequence_length)


def _cost_model(own: ScaleOptions) -> str | CostModel | None:
    from perfcast.catalog.clusters import load_cluster_entry
    from perfcast.verbs.shared.cost_model import find_cost_model

    stem = own.clusters[0].partition(":")[0]
    return find_cost_model(own.cost_model, load_cluster_entry(stem).device)


def _refuse(given: dict[str, object], reason: str) -> None:
    named = [option for option, value in given.items() if value]
    if named:
        raise click.UsageError(f"{', '.join(named)}: {reason}")
