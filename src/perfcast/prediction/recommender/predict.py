"""The front door of recommendation models: model, cluster and sharding → time and memory of a training step.

The dense part is captured from its modules and priced operation by operation; lookups of every rank are
priced from what the rank looks up; collectives by what the busiest rank sends or receives; a simulation of
all ranks joins them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.models import load_model
from perfcast.core.arrays import Floats
from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.core.embedding.columns import embedding_columns
from perfcast.core.embedding.lookup import ShardingKind, TablePlacement
from perfcast.core.embedding.model import Recommender, recommender_from_config
from perfcast.core.embedding.sharding import (
    check_sharding,
    index_bytes_between,
    pooled_bytes_between,
    shard_lookups,
)
from perfcast.core.forecast.recommender import RecommenderForecast, RecommenderRank
from perfcast.core.graph import Graph
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.embedding.all_to_all import all_to_all_operation
from perfcast.cost.embedding.model import PHASES, EmbeddingPricer
from perfcast.cost.embedding.select import embedding_pricer
from perfcast.cost.host.issue import NO_WAIT, Host, host_of
from perfcast.cost.interval import join_intervals
from perfcast.cost.model import CostModel
from perfcast.cost.prices import price_communication
from perfcast.errors import ModelError
from perfcast.memory_use.liveness import estimate_memory
from perfcast.memory_use.recommender import RecommenderMemory, estimate_recommender_memory
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.recommender.program import PlayedStep, StepSeconds, play_step
from perfcast.prediction.request.recommender import RecommenderRequest
from perfcast.workload.recommender.placement import plain_sharding

#: Half of a 90 % interval of a normal distribution, in standard deviations.
_NINETY_PERCENT = 1.645
#: Of a device's memory, what tables and their state may take where a sharding is chosen here.
_TABLE_SHARE = 0.7
#: Of a weight of the dense part: itself and its gradient, fp32.
_DENSE_BYTES = 8


def forecast_recommender(request: RecommenderRequest) -> RecommenderForecast:
    """Forecast one training step.

    Raises:
        InputError: Unknown names, a model that is no recommendation model, a batch or a sharding that the
            cluster cannot follow.
    """
    recommender = read_recommender(request.model) if isinstance(request.model, str) else request.model
    target = load_cluster(request.cluster) if isinstance(request.cluster, str) else request.cluster
    device = resolve_device(target.device)
    pricing = resolve_cost_model(request.cost_model, device)
    world, batch = target.num_devices, request.global_batch_size
    places = request.placements or tuple(
        plain_sharding(recommender.tables, world, _TABLE_SHARE * device.memory_bytes)
    )
    check_sharding(recommender.tables, places, world, batch)
    dense = capture_dense(recommender, batch // world, device, request)
    pricer = embedding_pricer(device, optimizer=request.optimizer, name=request.embedding_cost)
    step = _StepPrices.of(recommender, places, target, device, dense, pricing, pricer, request)
    played = [play_step(s, world, request.pipelined_input) for s in (step.middle, step.low, step.high)]
    memory = _memory(recommender, places, world, request, dense)
    return RecommenderForecast(
        model=recommender,
        cluster=target.name,
        device=device.name,
        num_devices=world,
        global_batch_size=batch,
        dtype=request.dtype,
        optimizer=request.optimizer,
        cost_model=pricing.name,
        placements=places,
        step_seconds=played[0].step_seconds,
        step_seconds_low=played[1].step_seconds,
        step_seconds_high=played[2].step_seconds,
        ranks=_ranks(played[0], step.num_shards, memory),
        segment_seconds={name: step.middle.common[name] for name in dense.segments},
        communication_bytes=step.communication_bytes,
        capacity_bytes=device.memory_bytes,
        spans=played[0].spans,
        assumptions=(*_assumptions(recommender, request, pricer), *request.notes),
    )


def read_recommender(name: str) -> Recommender:
    """A recommendation model of the catalog.

    Raises:
        UnknownNameError: Not in the catalog.
        ModelError: Of another kind.
    """
    entry = load_model(name)
    if entry.architecture != "DLRM":
        raise ModelError(f"{entry.name} is a {entry.architecture}, not a recommendation model")
    return recommender_from_config(entry.name, entry.config)


@dataclass(frozen=True)
class Dense:
    """The captured dense part.

    Attributes:
        segments: Indices of nodes, by segment, in order.
        parameters: Whose gradients each backward segment completes.
        activation_bytes: Kept at the peak of the step, without weights and states.
    """

    graph: Graph
    segments: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, int]
    activation_bytes: float


def capture_dense(
    model: Recommender, local_batch_size: int, device: Device, request: RecommenderRequest
) -> Dense:
    """What every rank runs beside its tables, lowered to the device."""
    from perfcast.workload.capture.capture import CaptureOptions, capture
    from perfcast.workload.fuse import fuse
    from perfcast.workload.lower import lower
    from perfcast.workload.recommender.dense import build_dense_program, parameters_of, segments_of
    from perfcast.workload.shape import StepShape
    from perfcast.workload.step import OptimizerChoice

    config: Mapping[str, Any] = model.config()
    shape = StepShape(mode="train", batch_size=local_batch_size, dtype=request.dtype)
    implementation = "loop" if device.is_cpu else "foreach"
    graph, program = capture(
        lambda: build_dense_program(config, local_batch_size),
        CaptureOptions(
            for_accelerator=not device.is_cpu,
            autocast_dtype=shape.autocast_dtype,
            optimizer=OptimizerChoice("sgd", implementation),
        ),
    )
    graph = lower(graph, device, request.dtype)
    if request.compiled:
        graph = fuse(graph)
    parameters = parameters_of(program.module)
    peak = estimate_memory(graph, device.memory_bytes).peak_bytes
    return Dense(
        graph, segments_of(graph), parameters, max(peak - _DENSE_BYTES * sum(parameters.values()), 0.0)
    )


@dataclass(frozen=True)
class _StepPrices:
    """Durations of a step's tasks, with the ends of their intervals."""

    middle: StepSeconds
    low: StepSeconds
    high: StepSeconds
    communication_bytes: Mapping[str, float]
    num_shards: tuple[int, ...]

    @classmethod
    def of(
        cls,
        model: Recommender,
        places: tuple[TablePlacement, ...],
        cluster: Cluster,
        device: Device,
        dense: Dense,
        cost_model: CostModel,
        pricer: EmbeddingPricer,
        request: RecommenderRequest,
    ) -> _StepPrices:
        world, batch = cluster.num_devices, request.global_batch_size
        lookups = shard_lookups(model.tables, places, world, batch)
        seconds = price_ranks(pricer, lookups)
        widest = float(np.exp(_NINETY_PERCENT * pricer.relative_spread))
        tasks = price_segments(dense, device, cost_model, _host(device, request))
        operations = all_to_all_operations(model, places, world, dense, request)
        if operations and world > 1:
            estimates = price_communication(list(operations.values()), cluster)
            for i, name in enumerate(operations):
                low, high = estimates.seconds_low[i], estimates.seconds_high[i]
                tasks[name] = (float(estimates.seconds[i]), float(low), float(high))
        ends = [
            StepSeconds(
                {name: three[i] for name, three in tasks.items()},
                (seconds["forward"] * factor).tolist(),
                (seconds["backward"] * factor).tolist(),
            )
            for i, factor in enumerate((1.0, 1 / widest, widest))
        ]
        sizes = {name: float(o.attribute("message_bytes") or 0) for name, o in operations.items()}
        return cls(ends[0], ends[1], ends[2], sizes, tuple(len(mine) for mine in lookups))


def price_ranks(pricer: EmbeddingPricer, lookups: Sequence[Sequence[Any]]) -> dict[str, Floats]:
    """Seconds of every rank's lookups by phase, shape [ranks]."""
    columns = embedding_columns([lookup for mine in lookups for lookup in mine])
    owner = np.repeat(np.arange(len(lookups)), [len(mine) for mine in lookups])
    found = {}
    for phase in PHASES:
        vectors = pricer.table_vectors(columns, phase)
        summed = np.zeros((len(lookups), vectors.shape[1]))
        np.add.at(summed, owner, vectors)
        found[phase] = pricer.device_seconds(summed, phase)
    return found


def price_segments(
    dense: Dense, device: Device, cost_model: CostModel, host: Host | None
) -> dict[str, tuple[float, float, float]]:
    """Seconds, low and high of every segment of the dense part, with what the device waits for its host."""
    graph, operations = dense.graph, dense.graph.operations
    estimates = cost_model.estimate(operations, device)
    groups = [operation.kind.value for operation in operations]
    index = np.array([node.operation for node in graph.nodes], dtype=np.int64)
    own = estimates.seconds[index]
    found = {}
    for name, nodes in dense.segments.items():
        part = np.isin(np.arange(len(index)), nodes)
        low, high = join_intervals(estimates, np.bincount(index[part], minlength=len(operations)), groups)
        seconds = float(own[part].sum())
        wait = host.wait(graph, own, part=part) if host else NO_WAIT
        found[name] = (
            seconds + wait.seconds,
            seconds + wait.seconds - math.hypot(seconds - low, wait.seconds - wait.seconds_low),
            seconds + wait.seconds + math.hypot(high - seconds, wait.seconds_high - wait.seconds),
        )
    return found


def _host(device: Device, request: RecommenderRequest) -> Host | None:
    """What issues the dense part; none to a processor."""
    if device.is_cpu:
        return None
    return host_of(device, "graphs" if request.graphed else "compiled" if request.compiled else "eager")


def all_to_all_operations(
    model: Recommender,
    places: tuple[TablePlacement, ...],
    world: int,
    dense: Dense,
    request: RecommenderRequest,
) -> dict[str, Operation]:
    """What ranks exchange, by task; nothing where one rank is alone."""
    ranks, batch = tuple(range(world)), request.global_batch_size
    pooled_dtype = DTYPES_BY_LABEL[request.dtype] if request.dtype in ("fp16", "bf16") else DType.FP32
    pooled = pooled_bytes_between(model.tables, places, world, batch, pooled_dtype)
    found: dict[str, Operation] = {}
    if pooled.any():
        indices = index_bytes_between(model.tables, places, world, batch)
        found["indices"] = all_to_all_operation(indices, ranks, DType.INT64)
        found["pooled"] = all_to_all_operation(pooled, ranks, pooled_dtype)
        found["gradients"] = all_to_all_operation(pooled.T, ranks, pooled_dtype)
    copied = sum(
        table.num_elements
        for table, place in zip(model.tables, places, strict=True)
        if place.kind is ShardingKind.DATA_PARALLEL
    )
    for name, elements in (
        ("all-reduce head", dense.parameters["head backward"]),
        ("all-reduce bottom", dense.parameters["bottom backward"] + copied),
    ):
        found[name] = collective_operation("all_reduce", 4 * elements, ranks, DType.FP32)
    return found


def _memory(
    model: Recommender,
    places: tuple[TablePlacement, ...],
    world: int,
    request: RecommenderRequest,
    dense: Dense,
) -> RecommenderMemory:
    dense_bytes = float(_DENSE_BYTES * sum(dense.parameters.values()))
    return estimate_recommender_memory(
        model.tables, places, world, request.global_batch_size, request.optimizer,
        dense_bytes=dense_bytes, activation_bytes=dense.activation_bytes,
    )  # fmt: skip


def _ranks(
    played: PlayedStep, num_shards: tuple[int, ...], memory: RecommenderMemory
) -> tuple[RecommenderRank, ...]:
    held = memory.total_bytes.tolist()
    return tuple(
        RecommenderRank(rank, played.causes(rank), held[rank], count) for rank, count in enumerate(num_shards)
    )


def _assumptions(model: Recommender, request: RecommenderRequest, pricer: EmbeddingPricer) -> tuple[str, ...]:
    known = sum(table.reuse is not None for table in model.tables)
    notes = [
        f"embedding lookups by '{pricer.name}' ({pricer.provenance}); reuse is known of {known} of "
        f"{len(model.tables)} tables, else every row is taken to be equally likely",
        "the dense part runs as PyTorch runs it"
        + (", fused as a compiler would" if request.compiled else ""),
        "collectives and kernels that run side by side do not slow each other down",
    ]
    if request.placements is None:
        notes.append("tables lie as a plain greedy rule deals them out")
    return tuple(notes)
