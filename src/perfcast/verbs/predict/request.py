"""From the question of ``perfcast predict`` to the one request that it asks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.own_module import OwnModule
from perfcast.core.plans.choice import choose_plan, implied_devices
from perfcast.core.words import known_word
from perfcast.errors import PlanError, QuestionError
from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.shared.cost_model import choose_cost_model, find_cost_model
from perfcast.verbs.shared.step import device_request, training_of

if TYPE_CHECKING:
    from perfcast.prediction.model import NamedModel
    from perfcast.prediction.request.one_device import OneDeviceRequest
    from perfcast.prediction.request.parallel_program import ParallelProgramRequest
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.prediction.request.recommender import RecommenderRequest

    StepRequest = OneDeviceRequest | PlanRequest | ParallelProgramRequest | RecommenderRequest


def request_of(asked: PredictQuestion, *, with_timeline: bool = False) -> StepRequest:
    """What is asked: a step on one device, under a plan, of a parallel program, or of sharded tables.

    Args:
        with_timeline: Whether what happens when is kept.

    Raises:
        InputError: Contradictions, unknown names, a plan or batch that model or cluster cannot follow.
        QuestionError: Options that the step asked for has no use for, or no place to run.
    """
    from perfcast.prediction.model import read_model

    asked.check()
    asked.check_run()
    model = read_model(asked.model)
    if asked.tokens is not None and (asked.world_size is not None or not model.has_sizes):
        raise QuestionError("--tokens: of a transformer by its sizes, whose checkpoints are known")
    if asked.world_size is not None:
        return _parallel_program(asked, asked.world_size, with_timeline=with_timeline)
    place = _one_place(asked)
    if place is not None and _runs_own_modules(asked, model, place):
        if asked.tokens is None:
            return _one_device(asked, place)
    elif model.is_recommender:
        return _recommender(asked, model.name)
    return _plan(asked, model, place, with_timeline=with_timeline)


def _one_place(asked: PredictQuestion) -> str | Device | None:
    """The one device that is asked for, by itself or as a cluster of one; None for several."""
    if not asked.is_of_one_device:
        return None
    if asked.cluster is None:
        if asked.device is None:
            raise QuestionError("where does it run? give --device NAME, or --cluster NAME:N")
        return asked.device
    cluster = _cluster(asked, None)
    return cluster.device if cluster.num_devices == 1 else None


def _cluster(asked: PredictQuestion, num_devices: int | None) -> Cluster:
    """The cluster that is named, or that is given itself."""
    from perfcast.prediction.plan.cluster import cluster_by_name

    if isinstance(asked.cluster, Cluster):
        return asked.cluster
    assert asked.cluster is not None
    return cluster_by_name(asked.cluster, num_devices, asked.device_name)


def _runs_own_modules(asked: PredictQuestion, model: NamedModel, place: str | Device) -> bool:
    """Whether the model's own modules are what is asked for on one device."""
    from perfcast.prediction.names import is_processor
    from perfcast.prediction.program import choose_program

    is_local = is_processor(place) if isinstance(place, str) else place.is_cpu
    program = choose_program(
        model, asked.step_mode, framework=asked.framework, compiles=asked.compile, is_local=is_local
    )
    return program.is_captured


def _refuse(asked: PredictQuestion, names: tuple[str, ...], why: str) -> None:
    given = asked.said(names)
    if given:
        raise QuestionError(f"{', '.join(given)}: {why}")


def _one_device(asked: PredictQuestion, device: str | Device) -> OneDeviceRequest:
    from perfcast.prediction.request.one_device import OneDeviceRequest

    _refuse(asked, ("closed_form", "stragglers"), "of a plan over several devices")
    _refuse(
        asked,
        ("kv_cache_dtype",),
        "of inference by a framework's kernels (--framework vllm), not of the model's own modules",
    )
    if asked.of_run:
        raise QuestionError(f"{', '.join(asked.of_run)}: of a whole run; give its --tokens")
    name = device if isinstance(device, str) else device.name
    return OneDeviceRequest(
        workload=replace(device_request(asked), host=asked.host, cuda_graphs=asked.cuda_graphs),
        device=device,
        cost_model=find_cost_model(asked.cost_model, name),
        framework=asked.framework,
        weights=asked.weights,
    )


def _plan(
    asked: PredictQuestion, model: NamedModel, place: str | Device | None, *, with_timeline: bool
) -> PlanRequest:
    from perfcast.prediction.defaults import choose_defaults
    from perfcast.prediction.names import resolve_device
    from perfcast.prediction.program import choose_program
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.simulate.stragglers import parse_slowdowns

    if isinstance(asked.model, OwnModule):
        raise QuestionError(
            f"a plan over {asked.model.title}: its inputs are one batch, and a plan deals batches out; write "
            "a function that takes batch_size and returns module and inputs, and give FILE.py:FUNCTION"
        )
    why = "of one device that runs the model's own modules (--framework pytorch)"
    _refuse(asked, ("optimizer_implementation", "host", "cuda_graphs"), why)
    _refuse(asked, ("autocast",), "of one device that runs the model's own modules")
    mode = asked.step_mode
    if mode != "train" and asked.text("attention") == "eager":
        raise QuestionError(f"--attention eager: --mode {mode} under a plan has fused attention")
    cluster, place_notes = _choose_cluster(asked, place)
    plan, plan_notes = choose_plan(
        asked.plan_values,
        cluster.num_devices,
        mode=mode,
        batch_size=asked.batch_size,
        micro_batch_size=asked.micro_batch_size,
        is_captured=not model.has_sizes,
    )
    program = choose_program(model, mode, plan, framework=asked.framework, compiles=asked.compile)
    device = resolve_device(cluster.device)
    chosen = choose_defaults(
        model, mode, device, dtype=asked.format or AUTO, sequence_length=asked.sequence_length
    )
    training = training_of(asked, program.framework, chosen.dtype) if mode == "train" else None
    kernels = program.framework if training is None else None
    return PlanRequest(
        model=model,
        cluster=cluster,
        plan=plan,
        recompute_is_open="recompute" not in asked.plan_values,
        mode=mode,
        training=training,
        dtype=chosen.dtype,
        kv_cache_dtype=asked.kv_cache_dtype,
        framework=program.framework,
        compiles=asked.compile,
        sequence_length=chosen.sequence_length,
        image_size=asked.image_size,
        memory_format=asked.layout,
        cost_model=choose_cost_model(asked.cost_model, cluster.device, kernels, asked.weights),
        method="closed_form" if asked.closed_form else "simulated",
        stragglers=parse_slowdowns(asked.stragglers) if asked.stragglers else None,
        with_spans=with_timeline and not asked.closed_form,
        notes=(*place_notes, *plan_notes),
        defaults=chosen.notes,
    )


def _choose_cluster(asked: PredictQuestion, place: str | Device | None) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster of a plan, and what was chosen for the user.

    Args:
        place: The one device that is asked for; None for several.
    """
    from perfcast.prediction.route import lone_cluster

    if place is not None and asked.cluster is None:
        return lone_cluster(place), ()
    _check_devices(asked)
    needed = implied_devices(asked.plan_values)
    wanted = asked.num_devices if asked.num_devices > 1 else needed if needed > 1 else None
    if asked.cluster is not None:
        counts_itself = _counts_itself(asked) and asked.num_devices == 1
        return _cluster(asked, None if counts_itself else wanted), ()
    return _server_of(asked, wanted or 1, "where does it run?", "--device NAME with --devices N")


def _check_devices(asked: PredictQuestion) -> None:
    if asked.num_devices < 1:
        raise PlanError(f"--devices {asked.num_devices}: must be at least 1")


def _counts_itself(asked: PredictQuestion) -> bool:
    """Whether the cluster's name says how many devices it has."""
    return isinstance(asked.cluster, Cluster) or ":" in (asked.cluster or "")


def _server_of(
    asked: PredictQuestion, num_devices: int, question: str, other: str
) -> tuple[Cluster, tuple[str, ...]]:
    """The catalog's cluster of a device, and that it was chosen."""
    from perfcast.prediction.plan.cluster import cluster_of_device

    if asked.device_name is None:
        raise QuestionError(f"{question} give --cluster NAME:N, or {other}")
    found = cluster_of_device(asked.device_name, num_devices)
    return found, (f"no --cluster was given: {found.name}, {found.title}",)


def _parallel_program(
    asked: PredictQuestion, world_size: int, *, with_timeline: bool
) -> ParallelProgramRequest:
    """Batch and sequence are those of one rank."""
    from perfcast.prediction.request.parallel_program import ParallelProgramRequest

    _refuse(asked, ("closed_form", "stragglers"), "of a plan, not of --world-size")
    _refuse(asked, ("host", "cuda_graphs"), "of one device, not of --world-size")
    if asked.plan_values:
        raise QuestionError("--world-size is of a program that is parallel itself; it takes no --plan")
    if asked.num_devices not in (1, world_size):
        raise QuestionError(f"--world-size {world_size}, but --devices {asked.num_devices}")
    notes: tuple[str, ...] = ()
    if asked.cluster is not None:
        cluster = _cluster(asked, None if _counts_itself(asked) else world_size)
    else:
        cluster, notes = _server_of(asked, world_size, "where does it run?", "--device NAME")
    request = ParallelProgramRequest(
        workload=device_request(replace(asked, devices=1), world_size=world_size),
        cluster=cluster,
        cost_model=choose_cost_model(asked.cost_model, cluster.device, asked.framework, asked.weights),
        with_spans=with_timeline,
        notes=notes,
    )
    if asked.of_run:
        raise QuestionError(f"{', '.join(asked.of_run)}: of a whole run; give its --tokens")
    return request


def _recommender(asked: PredictQuestion, name: str) -> RecommenderRequest:
    from perfcast.prediction.defaults import RECOMMENDER_DTYPE
    from perfcast.prediction.request.recommender import DENSE_DTYPES, RecommenderRequest

    if asked.of_run:
        raise QuestionError(f"{', '.join(asked.of_run)}: of a plan")
    _refuse_of_other_models(asked)
    if asked.batch_size is None:
        raise QuestionError("--batch-size: samples of a step, over all devices")
    _check_devices(asked)
    notes: tuple[str, ...] = ()
    if asked.cluster is not None:
        cluster = _cluster(asked, asked.num_devices if asked.num_devices > 1 else None)
    else:
        question = f"where does {name} run?"
        cluster, notes = _server_of(asked, asked.num_devices, question, "--device NAME with --devices N")
    found = RecommenderRequest(
        model=name,
        cluster=cluster,
        global_batch_size=asked.batch_size,
        dtype=known_word("dtype", asked.format or RECOMMENDER_DTYPE, DENSE_DTYPES),
        compiled=asked.compile,
        cost_model=choose_cost_model(asked.cost_model, cluster.device, None, None),
        notes=notes,
    )
    return found if asked.optimizer is None else replace(found, optimizer=asked.optimizer)


_NOT_OF_RECOMMENDERS = (
    "micro_batch_size",
    "sequence_length",
    "optimizer_implementation",
    "framework",
    "weights",
    "closed_form",
    "stragglers",
    "host",
    "cuda_graphs",
    "attention",
    "image_size",
    "memory_format",
    "autocast",
)


def _refuse_of_other_models(asked: PredictQuestion) -> None:
    """Options that mean nothing for a recommendation model on several devices."""
    if asked.plan_values:
        raise PlanError(
            f"--plan {asked.text('plan')}: means nothing for {asked.model}, whose networks run on every "
            "device and whose tables are sharded ('perfcast shard' searches placements); leave it out"
        )
    if asked.step_mode != "train":
        raise PlanError(f"--mode {asked.step_mode}: {asked.model} on several devices is a training step")
    _refuse(asked, _NOT_OF_RECOMMENDERS, "not of a recommendation model on several devices")
