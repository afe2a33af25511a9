"""From the options of ``perfcast predict`` to the one request that they ask."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.cost_model import choose_cost_model, find_cost_model
from perfcast.cli.options.given import is_given
from perfcast.cli.options.shared import StepOptions, device_request, training_of
from perfcast.cli.predict.options import PredictOptions
from perfcast.core.dtype import AUTO
from perfcast.core.plans.choice import choose_plan, implied_devices
from perfcast.core.plans.text import format_values
from perfcast.core.words import known_word
from perfcast.errors import PlanError

if TYPE_CHECKING:
    from perfcast.cli.options.run import RunOptions
    from perfcast.core.cluster import Cluster
    from perfcast.prediction.model import NamedModel
    from perfcast.prediction.request.one_device import OneDeviceRequest
    from perfcast.prediction.request.parallel_program import ParallelProgramRequest
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.prediction.request.recommender import RecommenderRequest

    StepRequest = OneDeviceRequest | PlanRequest | ParallelProgramRequest | RecommenderRequest


def build_request(
    step: StepOptions, own: PredictOptions, run: RunOptions, *, with_timeline: bool
) -> StepRequest:
    """What is asked: a step on one device, under a plan, of a parallel program, or of sharded tables.

    Raises:
        InputError: Contradictions, unknown names, a plan or batch that model or cluster cannot follow.
        UsageError: Options that the step asked for has no use for, or no place to run.
    """
    from perfcast.prediction.model import read_model

    step.tuning(step.mode)  # refused where nothing trains, whoever answers
    model = read_model(step.model)
    if run.tokens is not None and (own.world_size is not None or not model.has_sizes):
        raise click.UsageError("--tokens: of a transformer by its sizes, whose checkpoints are known")
    if own.world_size is not None:
        return _parallel_program(step, own, own.world_size, with_timeline=with_timeline)
    place = _one_place(step, own)
    if place is not None and _runs_own_modules(step, own, model, place):
        if run.tokens is None:
            return _one_device(step, own, run, place)
    elif model.is_recommender:
        return _recommender(step, own, run)
    return _plan(step, own, model, place, with_timeline=with_timeline)


def _one_place(step: StepOptions, own: PredictOptions) -> str | None:
    """The one device that is asked for, by itself or as a cluster of one; None for several."""
    from perfcast.prediction.plan.cluster import cluster_by_name

    if not step.is_of_one_device:
        return None
    if own.cluster is None:
        if step.device is None:
            raise click.UsageError("where does it run? give --device NAME, or --cluster NAME:N")
        return step.device
    cluster = cluster_by_name(own.cluster, None, step.device)
    return cluster.device if cluster.num_devices == 1 else None


def _runs_own_modules(step: StepOptions, own: PredictOptions, model: NamedModel, place: str) -> bool:
    """Whether the model's own modules are what is asked for on one device."""
    from perfcast.prediction.names import is_processor
    from perfcast.prediction.program import choose_program

    program = choose_program(
        model, step.mode, framework=own.framework, compiles=step.compile, is_local=is_processor(place)
    )
    return program.is_captured


def _refuse(given: dict[str, object], why: str) -> None:
    names = [name for name, value in given.items() if value is not None and value is not False]
    if names:
        raise click.UsageError(f"{', '.join(names)}: {why}")


def _one_device(step: StepOptions, own: PredictOptions, run: RunOptions, device: str) -> OneDeviceRequest:
    from perfcast.prediction.request.one_device import OneDeviceRequest

    _refuse(
        {"--closed-form": own.closed_form, "--stragglers": own.stragglers}, "of a plan over several devices"
    )
    _refuse(
        {"--kv-cache-dtype": step.kv_cache_dtype},
        "of inference by a framework's kernels (--framework vllm), not of the model's own modules",
    )
    _refuse(dict.fromkeys(run.given, True), "of a whole run; give its --tokens")
    return OneDeviceRequest(
        workload=replace(device_request(step), host=own.host, cuda_graphs=own.cuda_graphs),
        device=device,
        cost_model=find_cost_model(own.cost_model, device),
        framework=own.framework,
        weights=own.weights,
    )


def _plan(
    step: StepOptions, own: PredictOptions, model: NamedModel, place: str | None, *, with_timeline: bool
) -> PlanRequest:
    from perfcast.prediction.defaults import choose_defaults
    from perfcast.prediction.names import resolve_device
    from perfcast.prediction.program import choose_program
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.simulate.stragglers import parse_slowdowns

    _refuse(
        {
            "--optimizer-implementation": step.optimizer_implementation,
            "--host": own.host,
            "--cuda-graphs": own.cuda_graphs,
        },
        "of one device that runs the model's own modules (--framework pytorch)",
    )
    _refuse({"--autocast": step.autocast}, "of one device that runs the model's own modules")
    if step.mode != "train" and step.attention == "eager":
        raise click.UsageError(f"--attention eager: --mode {step.mode} under a plan has fused attention")
    cluster, place_notes = _choose_cluster(step, own.cluster, place)
    plan, plan_notes = choose_plan(
        step.plan,
        cluster.num_devices,
        mode=step.mode,
        batch_size=step.batch_size,
        micro_batch_size=step.micro_batch_size,
        is_captured=not model.has_sizes,
    )
    program = choose_program(model, step.mode, plan, framework=own.framework, compiles=step.compile)
    device = resolve_device(cluster.device)
    chosen = choose_defaults(
        model, step.mode, device, dtype=step.dtype or AUTO, sequence_length=step.sequence_length
    )
    training = training_of(step, program.framework, chosen.dtype) if step.mode == "train" else None
    kernels = program.framework if training is None else None
    return PlanRequest(
        model=model,
        cluster=cluster,
        plan=plan,
        recompute_is_open="recompute" not in step.plan,
        mode=step.mode,
        training=training,
        dtype=chosen.dtype,
        kv_cache_dtype=step.kv_cache_dtype,
        framework=program.framework,
        compiles=step.compile,
        sequence_length=chosen.sequence_length,
        image_size=step.image_size,
        memory_format=step.memory_format,
        cost_model=choose_cost_model(own.cost_model, cluster.device, kernels, own.weights),
        method="closed_form" if own.closed_form else "simulated",
        stragglers=parse_slowdowns(own.stragglers) if own.stragglers else None,
        with_spans=with_timeline and not own.closed_form,
        notes=(*place_notes, *plan_notes),
        defaults=chosen.notes,
    )


def _choose_cluster(
    step: StepOptions, named: str | None, place: str | None
) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster of a plan, and what was chosen for the user.

    Args:
        place: The one device that is asked for; None for several.
    """
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.prediction.route import lone_cluster

    if place is not None and named is None:
        return lone_cluster(place), ()
    if step.devices < 1:
        raise PlanError(f"--devices {step.devices}: must be at least 1")
    needed = implied_devices(step.plan)
    wanted = step.devices if step.devices > 1 else needed if needed > 1 else None
    if named is not None:
        counts_itself = ":" in named and step.devices == 1
        return cluster_by_name(named, None if counts_itself else wanted, step.device), ()
    return _server_of(step.device, wanted or 1, "where does it run?", "--device NAME with --devices N")


def _server_of(
    device: str | None, num_devices: int, question: str, other: str
) -> tuple[Cluster, tuple[str, ...]]:
    """The catalog's cluster of a device, and that it was chosen."""
    from perfcast.prediction.plan.cluster import cluster_of_device

    if device is None:
        raise click.UsageError(f"{question} give --cluster NAME:N, or {other}")
    found = cluster_of_device(device, num_devices)
    return found, (f"no --cluster was given: {found.name}, {found.title}",)


def _parallel_program(
    step: StepOptions, own: PredictOptions, world_size: int, *, with_timeline: bool
) -> ParallelProgramRequest:
    """Batch and sequence are those of one rank."""
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.prediction.request.parallel_program import ParallelProgramRequest

    _refuse(
        {"--closed-form": own.closed_form, "--stragglers": own.stragglers, "--chakra": own.chakra},
        "of a plan, not of --world-size",
    )
    _refuse({"--host": own.host, "--cuda-graphs": own.cuda_graphs}, "of one device, not of --world-size")
    if step.plan:
        raise click.UsageError("--world-size is of a program that is parallel itself; it takes no --plan")
    if step.devices not in (1, world_size):
        raise click.UsageError(f"--world-size {world_size}, but --devices {step.devices}")
    notes: tuple[str, ...] = ()
    if own.cluster is not None:
        counts_itself = ":" in own.cluster
        cluster = cluster_by_name(own.cluster, None if counts_itself else world_size, step.device)
    else:
        cluster, notes = _server_of(step.device, world_size, "where does it run?", "--device NAME")
    return ParallelProgramRequest(
        workload=device_request(replace(step, devices=1), world_size=world_size),
        cluster=cluster,
        cost_model=choose_cost_model(own.cost_model, cluster.device, own.framework, own.weights),
        with_spans=with_timeline,
        notes=notes,
    )


def _recommender(step: StepOptions, own: PredictOptions, run: RunOptions) -> RecommenderRequest:
    from perfcast.prediction.defaults import RECOMMENDER_DTYPE
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.prediction.request.recommender import DENSE_DTYPES, RecommenderRequest

    _refuse({**dict.fromkeys(run.given, True), "--chakra": own.chakra}, "of a plan")
    _refuse_of_other_models(step, own)
    if step.batch_size is None:
        raise click.UsageError("--batch-size: samples of a step, over all devices")
    if step.devices < 1:
        raise PlanError(f"--devices {step.devices}: must be at least 1")
    notes: tuple[str, ...] = ()
    if own.cluster is not None:
        cluster = cluster_by_name(own.cluster, step.devices if step.devices > 1 else None, step.device)
    else:
        question = f"where does {step.model} run?"
        cluster, notes = _server_of(step.device, step.devices, question, "--device NAME with --devices N")
    found = RecommenderRequest(
        model=step.model,
        cluster=cluster,
        global_batch_size=step.batch_size,
        dtype=known_word("dtype", step.dtype or RECOMMENDER_DTYPE, DENSE_DTYPES),
        compiled=step.compile,
        cost_model=choose_cost_model(own.cost_model, cluster.device, None, None),
        notes=notes,
    )
    return replace(found, optimizer=step.optimizer) if is_given("optimizer") else found


def _refuse_of_other_models(step: StepOptions, own: PredictOptions) -> None:
    """Options that mean nothing for a recommendation model on several devices."""
    if step.plan:
        raise PlanError(
            f"--plan {format_values(step.plan)}: means nothing for {step.model}, whose networks run on every "
            "device and whose tables are sharded ('perfcast shard' searches placements); leave it out"
        )
    if step.mode != "train":
        raise PlanError(f"--mode {step.mode}: {step.model} on several devices is a training step")
    _refuse(
        {
            "--micro-batch-size": step.micro_batch_size,
            "--sequence-length": step.sequence_length,
            "--optimizer-implementation": step.optimizer_implementation,
            "--framework": own.framework,
            "--weights": own.weights,
            "--closed-form": own.closed_form,
            "--stragglers": own.stragglers,
            "--host": own.host,
            "--cuda-graphs": own.cuda_graphs,
            "--attention": is_given("attention"),
            "--image-size": step.image_size,
            "--memory-format": is_given("memory_format"),
            "--autocast": step.autocast,
        },
        "not of a recommendation model on several devices",
    )
