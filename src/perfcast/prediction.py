"""The front door: a model, a device and what to do with it → a Forecast."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfcast.catalog.devices import load_device
from perfcast.catalog.models import load_model
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.forecast import Forecast, KindTime, OperationTime
from perfcast.core.graph import Graph, Phase
from perfcast.core.hardware import Device
from perfcast.core.operation import OperationKind
from perfcast.cost.model import CostModel, Estimates
from perfcast.cost.roofline import Roofline
from perfcast.cost.spread import load_spread
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.memory.first_touch import with_first_touch
from perfcast.memory.liveness import estimate_memory

if TYPE_CHECKING:
    from perfcast.workload.shape import StepShape
    from perfcast.workload.step import Program

MODES = ("train", "prefill", "decode")
DTYPE_LABELS = ("fp32", "tf32", "bf16", "fp16", "fp64")
RECOMPUTE = ("none", "full")
ATTENTION = ("sdpa", "eager")
COST_MODELS = ("roofline", "linear")
_MAX_BATCH_SIZE = 10**7
_MAX_SEQUENCE_LENGTH = 10**8


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a model on one device.

    Attributes:
        model: Catalog name, a Hugging Face config.json or its folder, or ``FILE.py:FUNCTION``.
        mode: 'train' (forward, backward, optimizer), 'prefill' or 'decode'.
        batch_size: Sequences, images or samples of one step, over all micro-batches.
        micro_batch_size: Of one forward; None is the batch size.
        sequence_length: None takes the model's own.
        dtype: Training in bf16 or fp16 is mixed precision with fp32 weights.
        optimizer: 'adamw', 'adam', 'sgd', 'momentum' or 'none'.
        optimizer_implementation: 'fused', 'foreach' or 'loop'; None takes PyTorch's default.
        attention: 'sdpa' (fused) or 'eager'.
        recompute: 'none' or 'full' activation checkpointing.
        fold_layers: Capture repeated layers once; the result is the same.
    """

    model: str
    mode: str = "train"
    batch_size: int = 1
    micro_batch_size: int | None = None
    sequence_length: int | None = None
    dtype: str = "fp32"
    optimizer: str = "adamw"
    optimizer_implementation: str | None = None
    attention: str = "sdpa"
    recompute: str = "none"
    fold_layers: bool = True

    def __post_init__(self) -> None:
        for kind, value, known in (
            ("mode", self.mode, MODES),
            ("dtype", self.dtype, DTYPE_LABELS),
            ("recompute", self.recompute, RECOMPUTE),
            ("attention", self.attention, ATTENTION),
        ):
            if value not in known:
                raise UnknownNameError(kind, value, known, f"Known: {', '.join(known)}.")
        _check_range("batch size", self.batch_size, _MAX_BATCH_SIZE)
        _check_range("micro-batch size", self.micro_batch_size, self.batch_size)
        _check_range("sequence length", self.sequence_length, _MAX_SEQUENCE_LENGTH)
        if self.mode == "decode" and self.sequence_length == 1:
            raise PlanError("decode needs a context: --sequence-length of at least 2")
        if self.batch_size % (self.micro_batch_size or self.batch_size):
            raise PlanError(
                f"batch size {self.batch_size} is not a multiple of the "
                f"micro-batch size {self.micro_batch_size}"
            )

    @property
    def num_micro_batches(self) -> int:
        """Forwards and backwards of one step."""
        return self.batch_size // (self.micro_batch_size or self.batch_size)


def _check_range(what: str, value: int | None, largest: int) -> None:
    if value is not None and not 1 <= value <= largest:
        raise InputError(f"{what} {value} is not between 1 and {largest}")


def predict(
    model: str,
    device: str | Device,
    *,
    cost_model: str | CostModel = "roofline",
    **options: object,
) -> Forecast:
    """Forecast time and memory of one step.

    Args:
        model, options: See ``Request``.
        device: Catalog name, ``FILE.toml``, 'cpu', or a Device.
        cost_model: 'roofline' or 'linear', or an object that prices operations.

    Raises:
        InputError: Unknown names, impossible sizes, a model that cannot be captured; the message says
            what to do.
    """
    request = Request(model=model, **options)  # type: ignore[arg-type]
    target = resolve_device(device) if isinstance(device, str) else device
    pricing = resolve_cost_model(cost_model, target) if isinstance(cost_model, str) else cost_model
    graph, program = build_graph(request, target)
    if target.is_cpu:
        graph = with_first_touch(graph)
    return forecast_from(graph, request, target, pricing, program)


def predict_memory(model: str, device: str | Device, **options: object) -> Forecast:
    """Forecast memory alone; times are NaN. The 'cpu' device needs no calibration for this."""
    request = Request(model=model, **options)  # type: ignore[arg-type]
    target = _memory_device(device) if isinstance(device, str) else device
    graph, program = build_graph(request, target)
    return forecast_from(graph, request, target, None, program)


# ---- names ------------------------------------------------------------------------------------


def resolve_device(name: str) -> Device:
    """A device by name; 'cpu' is the local machine as calibration found it."""
    if name == "cpu":
        from perfcast.cost.profile import load_local_profile, local_device

        return local_device(load_local_profile())
    return load_device(name)


def resolve_cost_model(name: str, device: Device) -> CostModel:
    """A cost model by name; 'linear' needs a calibration of the device."""
    if name == "roofline":
        return Roofline()
    if name == "linear":
        from perfcast.cost.linear import LinearCost
        from perfcast.cost.profile import load_profile_of

        return LinearCost(load_profile_of(device.name))
    raise UnknownNameError("cost model", name, COST_MODELS, f"Known: {', '.join(COST_MODELS)}.")


def local_memory_bytes() -> int:
    """Memory of the machine that this runs on."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _memory_device(name: str) -> Device:
    """Like ``resolve_device``, but the local machine's memory needs no calibration."""
    if name != "cpu":
        return load_device(name)
    capacity = local_memory_bytes()
    nothing = math.nan
    return Device(
        name="cpu", title="this machine", vendor="cpu", architecture="", die="", year=0,
        memory_bytes=capacity, memory_bytes_per_second=nothing, num_sms=os.cpu_count() or 1,
        clock_hertz=nothing, l2_bytes=0, link_kind="", link_bytes_per_second=nothing, power_watts=None,
        launch_seconds=nothing, vector_flops_per_second={}, matrix_flops_per_second={},
    )  # fmt: skip


# ---- graph ------------------------------------------------------------------------------------


def build_graph(request: Request, device: Device) -> tuple[Graph, Program]:
    """Capture what is asked for and lower it to the device."""
    from perfcast.workload.capture import CaptureOptions, capture
    from perfcast.workload.lower import lower
    from perfcast.workload.shape import StepShape
    from perfcast.workload.step import OptimizerChoice

    shape = StepShape(
        mode=request.mode,
        batch_size=request.micro_batch_size or request.batch_size,
        sequence_length=request.sequence_length,
        dtype=request.dtype,
        attention=request.attention,
        recompute=request.recompute,
    )
    # PyTorch's own default: one kernel per step over lists on accelerators, a loop on the processor.
    implementation = request.optimizer_implementation or ("loop" if device.is_cpu else "foreach")
    options = CaptureOptions(
        training=request.mode == "train",
        for_accelerator=not device.is_cpu,
        autocast_dtype=shape.autocast_dtype,
        optimizer=OptimizerChoice(request.optimizer, implementation),
        num_micro_batches=request.num_micro_batches if request.mode == "train" else 1,
        fold_layers=request.fold_layers,
    )
    graph, program = capture(_program_builder(request, shape), options)
    return lower(graph, device, request.dtype), program


def _program_builder(request: Request, shape: StepShape) -> Callable[[], Program]:
    from perfcast.workload.huggingface import build_program, read_config
    from perfcast.workload.recommender import build_dlrm_program
    from perfcast.workload.user_file import build_user_program, load_function

    if ".py:" in request.model:
        if request.recompute != "none":
            raise PlanError("recompute is the program's own business in a FILE.py:FUNCTION model")
        function = load_function(request.model)
        return lambda: build_user_program(function, shape)
    path = Path(request.model)
    if path.suffix == ".json" or path.is_dir():
        config = read_config(path)
        return lambda: build_program(config, None, shape)
    entry = load_model(request.model)
    if entry.architecture == "DLRM":
        if request.mode == "decode":
            raise PlanError(f"{entry.name} does not generate tokens; it has no decode step")
        return lambda: build_dlrm_program(entry.config, shape.batch_size, request.mode == "train")
    if shape.sequence_length is None and entry.sequence_length is not None:
        shape = replace(shape, sequence_length=int(entry.sequence_length.value))
    return lambda: build_program(entry.config, entry.architecture, shape)


# ---- forecast ---------------------------------------------------------------------------------


def forecast_from(
    graph: Graph, request: Request, device: Device, cost_model: CostModel | None, program: Program
) -> Forecast:
    """Price each different operation once and sum; without a cost model all times are NaN."""
    estimates = _estimates(graph, device, cost_model)
    index = np.array([node.operation for node in graph.nodes], dtype=np.int64)
    node_seconds = estimates.seconds[index] if len(index) else np.zeros(0)
    step_seconds = float(node_seconds.sum())
    step_low = float(estimates.seconds_low[index].sum()) if len(index) else 0.0
    step_high = float(estimates.seconds_high[index].sum()) if len(index) else 0.0
    peak = math.nan if cost_model is None else _peak(device, request.dtype)
    totals = _Totals(graph, node_seconds)
    phases = totals.group([node.phase.value for node in graph.nodes])
    return Forecast(
        model=request.model,
        device=device.name,
        device_title=device.title,
        mode=request.mode,
        dtype=request.dtype,
        batch_size=program.batch_size * request.num_micro_batches,
        sequence_length=program.sequence_length,
        cost_model=cost_model.name if cost_model else "none",
        step_seconds=step_seconds,
        step_seconds_low=step_low,
        step_seconds_high=step_high,
        seconds_by_phase={phase.value: _seconds_of(phases, phase.value) for phase in Phase},
        by_kind=totals.group([graph.operations[node.operation].kind.value for node in graph.nodes]),
        by_module=totals.group([node.module for node in graph.nodes]),
        operations=_operation_times(graph, estimates),
        node_seconds=tuple(node_seconds.tolist()),
        memory=estimate_memory(graph, device.memory_bytes),
        flops=graph.flops,
        recompute_flops=graph.recompute_flops,
        peak_flops_per_second=peak,
        memory_bytes_per_second=device.memory_bytes_per_second,
        parameter_count=graph.parameter_count,
        assumptions=_assumptions(graph, request, device, cost_model),
        graph=graph,
    )


def _estimates(graph: Graph, device: Device, cost_model: CostModel | None) -> Estimates:
    count = len(graph.operations)
    if cost_model is not None:
        return cost_model.estimate(graph.operations, device)
    unknown = np.full(count, math.nan)
    return Estimates(unknown, unknown, unknown, ("",) * count, ("",) * count)


def _peak(device: Device, dtype: str) -> float:
    return device.peak_flops_per_second(DTYPES_BY_LABEL[dtype], matrix_units=True)


def _seconds_of(groups: Iterable[KindTime], label: str) -> float:
    return next((group.seconds for group in groups if group.label == label), 0.0)


@dataclass(frozen=True)
class _Totals:
    """Sums over nodes by any label."""

    graph: Graph
    node_seconds: NDArray[np.float64]

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


def _operation_times(graph: Graph, estimates: Estimates) -> tuple[OperationTime, ...]:
    counts: dict[tuple[int, Phase], int] = defaultdict(int)
    for node in graph.nodes:
        counts[node.operation, node.phase] += 1
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
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _assumptions(
    graph: Graph, request: Request, device: Device, cost_model: CostModel | None
) -> tuple[str, ...]:
    notes = list(graph.notes)
    if request.mode == "train":
        notes.append(
            "a step in steady state: optimizer state exists, gradients are freed by "
            "zero_grad(set_to_none=True)"
        )
        if request.dtype in ("bf16", "fp16"):
            notes.append(f"autocast to {request.dtype} with fp32 weights, gradients and optimizer state")
            if any(o.kind is OperationKind.GROUPED_MATMUL for o in graph.operations):
                notes.append(
                    f"experts' grouped products in {request.dtype} too; CUDA's autocast leaves them out"
                )
    else:
        notes.append(
            f"weights and activations in {request.dtype}; logits for every position that is computed"
        )
    if cost_model is not None:
        if device.is_cpu:
            notes.append("eager execution; times of the interpreter are in the operations'")
        else:
            notes.append("eager execution on one stream; the host is never late")
        notes.append("flops count every query-key pair, masked or not; recomputation is apart")
    if isinstance(cost_model, Roofline):
        notes.append(
            "datasheet roofline: low is the roofline itself, high is "
            f"{load_spread('roofline'):.2f} times the estimate, the largest ratio seen on measured steps"
        )
    elif cost_model is not None:
        notes.append(
            f"{cost_model.name}: fitted on kernels measured on this machine; see 'perfcast calibrate'"
        )
    unknown = sorted({o.name for o in graph.operations if o.kind is OperationKind.UNKNOWN})
    if unknown:
        notes.append(f"no rule for {', '.join(unknown)}: priced by memory traffic, with a wide interval")
    if device.note and device.vendor != "cpu":
        notes.append(f"{device.name}: {device.note}")
    return tuple(notes)
