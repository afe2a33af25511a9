"""Prices and graph → a Forecast."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.captured import StepSizes
from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.core.forecast.device import NO_HOST, Forecast, KindTime, OperationTime
from perfcast.core.graph import Graph, Phase
from perfcast.core.machine.hardware import Device
from perfcast.cost.interval import join_intervals, step_error_of_device
from perfcast.cost.model import CostModel, Estimates, KnowsNearest
from perfcast.memory_use.liveness import estimate_memory
from perfcast.prediction.defaults import complete_request
from perfcast.prediction.one_device.assumptions import list_assumptions
from perfcast.prediction.one_device.host import host_share
from perfcast.prediction.program import modules_of
from perfcast.prediction.request.one_device import Request

#: Operations for which the nearest measurement is looked up.
_MOST_NEAREST = 40


def forecast_from(
    graph: Graph, request: Request, device: Device, cost_model: CostModel | None, sizes: StepSizes
) -> Forecast:
    """Price each different operation once and sum; without a cost model all times are NaN.

    Args:
        request: Its defaults are chosen here where they are open.
        sizes: Of the captured step.
    """
    request, defaults = complete_request(request, device)
    estimates = _estimates(graph, device, cost_model)
    index = np.array([node.operation for node in graph.nodes], dtype=np.int64)
    node_seconds = estimates.seconds[index] if len(index) else np.zeros(0)
    host = host_share(graph, node_seconds, request, device, cost_model)
    wait = host or NO_HOST
    kernel_seconds = float(node_seconds.sum())
    step_seconds = kernel_seconds + wait.waits_seconds
    counts = np.bincount(index, minlength=len(graph.operations))
    is_fused = request.compile and not device.is_cpu
    step_error = step_error_of_device(is_training=request.mode == "train", is_compiled=is_fused)
    low, high = join_intervals(estimates, counts, [o.kind.value for o in graph.operations], step_error)
    step_low = step_seconds - math.hypot(kernel_seconds - low, wait.waits_seconds - wait.waits_seconds_low)
    step_high = step_seconds + math.hypot(high - kernel_seconds, wait.waits_seconds_high - wait.waits_seconds)
    peak = math.nan if cost_model is None else _peak(device, _matrix_format(graph, request.dtype))
    totals = _Totals(graph, node_seconds)
    phases = totals.group([node.phase.value for node in graph.nodes])
    return Forecast(
        model=request.title,
        device=device.name,
        device_title=device.title,
        mode=request.mode,
        dtype=request.dtype,
        batch_size=sizes.batch_size * request.num_micro_batches,
        sequence_length=sizes.sequence_length,
        cost_model=cost_model.name if cost_model else "none",
        step_seconds=step_seconds,
        step_seconds_low=step_low,
        step_seconds_high=step_high,
        exposed_host_seconds=wait.waits_seconds,
        host=host,
        seconds_by_phase={phase.value: _seconds_of(phases, phase.value) for phase in Phase},
        by_kind=totals.group([graph.operations[node.operation].kind.value for node in graph.nodes]),
        by_module=totals.group([node.module for node in graph.nodes]),
        seconds_by_provenance=_by_provenance(estimates, counts),
        operations=_operation_times(graph, estimates, device, cost_model),
        node_seconds=tuple(node_seconds.tolist()),
        memory=estimate_memory(graph, device.memory_bytes),
        flops=graph.flops,
        recompute_flops=graph.recompute_flops,
        peak_flops_per_second=peak,
        memory_bytes_per_second=device.memory_bytes_per_second,
        parameter_count=graph.parameter_count,
        program=modules_of(request, device),
        defaults=defaults,
        assumptions=list_assumptions(graph, request, device, cost_model),
        graph=graph,
    )


def _estimates(graph: Graph, device: Device, cost_model: CostModel | None) -> Estimates:
    count = len(graph.operations)
    if cost_model is not None:
        return cost_model.estimate(graph.operations, device)
    unknown = np.full(count, math.nan)
    return Estimates(unknown, unknown, unknown, ("",) * count, ("",) * count)


def _by_provenance(estimates: Estimates, counts: Integers) -> dict[str, float]:
    """Seconds of the step by what is known of its operations."""
    seconds: dict[str, float] = defaultdict(float)
    for tag, value in zip(estimates.provenance, (estimates.seconds * counts).tolist(), strict=True):
        if value:
            seconds[tag] += value
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def _matrix_format(graph: Graph, dtype: str) -> str:
    """What utilisation is of: TF32 where an fp32 model's convolutions run in it."""
    has_tf32 = any(o.compute_dtype is DType.TF32 and o.uses_matrix_units for o in graph.operations)
    return "tf32" if dtype == "fp32" and has_tf32 else dtype


def _peak(device: Device, dtype: str) -> float:
    return device.peak_flops_per_second(DTYPES_BY_LABEL[dtype], matrix_units=True)


def _seconds_of(groups: Iterable[KindTime], label: str) -> float:
    return next((group.seconds for group in groups if group.label == label), 0.0)


@dataclass(frozen=True)
class _Totals:
    """Sums over nodes by any label."""

    graph: Graph
    node_seconds: Floats

    def group(self, labels: list[str]) -> tuple[KindTime, ...]:
        seconds: dict[str, float] = defaultdict(float)
        count: dict[str, int] = defaultdict(int)
        flops: dict[str, int] = defaultdict(int)
        traffic: dict[str, int] = defaultdict(int)
        work = [(o.flops, o.memory_traffic_bytes, not o.is_free) for o in self.graph.operations]
        for node, label, node_seconds in zip(
            self.graph.nodes, labels, self.node_seconds.tolist(), strict=True
        ):
            node_flops, node_traffic, runs = work[node.operation]
            seconds[label] += node_seconds
            count[label] += runs
            flops[label] += node_flops
            traffic[label] += node_traffic
        groups = [KindTime(k, seconds[k], count[k], flops[k], traffic[k]) for k in seconds if count[k]]
        return tuple(sorted(groups, key=lambda group: -group.seconds))


def _operation_times(
    graph: Graph, estimates: Estimates, device: Device, cost_model: CostModel | None
) -> tuple[OperationTime, ...]:
    counts: dict[tuple[int, Phase], int] = defaultdict(int)
    for node in graph.nodes:
        counts[node.operation, node.phase] += 1
    totals: dict[int, int] = defaultdict(int)
    for (index, _), count in counts.items():
        totals[index] += count
    nearest = _nearest(graph, estimates, totals, device, cost_model)
    rows = []
    for (index, phase), count in counts.items():
        operation = graph.operations[index]
        if operation.is_free:
            continue
        rows.append(
            OperationTime(
                name=operation.name,
                kind=operation.kind.value,
                phase=phase.value,
                shapes=", ".join("x".join(map(str, t.shape)) or "scalar" for t in operation.inputs[:4]),
                count=count,
                seconds=count * float(estimates.seconds[index]),
                seconds_low=count * float(estimates.seconds_low[index]),
                seconds_high=count * float(estimates.seconds_high[index]),
                flops=count * operation.flops,
                memory_traffic_bytes=count * operation.memory_traffic_bytes,
                output_bytes=count * sum(t.num_bytes for t in operation.outputs),
                bound_by=estimates.bound_by[index],
                provenance=estimates.provenance[index],
                nearest=nearest.get(index, ""),
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _nearest(
    graph: Graph, estimates: Estimates, counts: dict[int, int], device: Device, cost_model: CostModel | None
) -> dict[int, str]:
    """The nearest measurement of the operations that take longest, where the cost model knows it."""
    if not isinstance(cost_model, KnowsNearest):
        return {}
    longest = sorted(counts, key=lambda i: -counts[i] * float(estimates.seconds[i]))[:_MOST_NEAREST]
    words = cost_model.nearest([graph.operations[i] for i in longest], device)
    return dict(zip(longest, words, strict=True))
