"""What a forecast takes for granted, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import OperationKind
from perfcast.core.tuning.text import describe_tuning, format_tuning
from perfcast.cost.host.issue import HostMode
from perfcast.cost.host.processors import resolve_processor
from perfcast.cost.model import CostModel, KnowsDevices, KnowsMeasurements
from perfcast.cost.spread import load_spread
from perfcast.prediction.one_device.host import host_mode, knows_host
from perfcast.prediction.request.one_device import Request

_HOW: Mapping[HostMode, str] = {
    "eager": "eager execution",
    "compiled": "compiled execution",
    "graphs": "one CUDA graph",
}


def list_assumptions(
    graph: Graph, request: Request, device: Device, cost_model: CostModel | None
) -> tuple[str, ...]:
    """Sentences without a full stop."""
    notes = list(graph.notes)
    if request.world_size is not None:
        notes.append(
            f"rank {request.rank} of {request.world_size}, captured alone; batch and micro-batch are its own"
        )
    if request.mode == "train":
        notes += _about_training(graph, request)
    else:
        kept = f"autocast to {request.dtype} with fp32 weights"
        if not request.autocast:
            kept = f"weights and activations in {request.dtype}"
        notes.append(f"{kept}; logits for every position that is computed")
    notes += _about_images(graph, request)
    if cost_model is not None:
        if device.is_cpu:
            how = "compiled" if request.compile else "eager"
            notes.append(f"{how} execution; times of the interpreter are in the operations'")
        else:
            notes.append(
                f"{_HOW[host_mode(request)]} on one stream; {_about_host(request, device, cost_model)}"
            )
        notes.append("flops count every query-key pair, masked or not; recomputation is apart")
    if cost_model is not None:
        notes += about_prices(cost_model, device)
    unknown = sorted({o.name for o in graph.operations if o.kind is OperationKind.UNKNOWN})
    if unknown:
        notes.append(f"no rule for {', '.join(unknown)}: priced by memory traffic, with a wide interval")
    if device.note and device.vendor != "cpu":
        notes.append(f"{device.name}: {device.note}")
    return tuple(notes)


def _about_images(graph: Graph, request: Request) -> Iterator[str]:
    convolutions = (o for o in graph.operations if o.kind is OperationKind.CONVOLUTION)
    if request.dtype == "fp32" and any(o.compute_dtype is DType.TF32 for o in convolutions):
        yield "convolutions of fp32 tensors in TF32, as torch.backends.cudnn.allow_tf32 is by default"
    if request.memory_format != "contiguous":
        yield f"weights and images in memory format {request.memory_format}"


def _about_training(graph: Graph, request: Request) -> Iterator[str]:
    yield (
        "a step in steady state: optimizer state exists, gradients are freed by zero_grad(set_to_none=True)"
    )
    if tuned := describe_tuning(request.tuning):
        yield f"not everything trains: {tuned} ({format_tuning(request.tuning)})"
    if request.dtype in ("bf16", "fp16"):
        kept = "fp32 weights"
        if request.tuning.adapters is not None:
            kept = f"frozen weights in {request.dtype}, fp32 adapters"
        yield f"autocast to {request.dtype} with {kept}, gradients and optimizer state"
        if any(o.kind is OperationKind.GROUPED_MATMUL for o in graph.operations):
            yield f"experts' grouped products in {request.dtype} too; CUDA's autocast leaves them out"


def about_prices(cost_model: CostModel, device: Device) -> list[str]:
    """What prices rest on, and how near to the device what was measured is."""
    kin = cost_model.about_device(device) if isinstance(cost_model, KnowsDevices) else ""
    return [about_cost_model(cost_model), *([kin] if kin else [])]


def about_cost_model(cost_model: CostModel) -> str:
    """What prices rest on."""
    if cost_model.name == "roofline":
        return (
            "datasheet roofline: low is the roofline itself, high is "
            f"{load_spread('roofline'):.2f} times the estimate, the largest ratio seen on measured steps"
        )
    if cost_model.name == "learned":
        moved = cost_model.measurements if isinstance(cost_model, KnowsMeasurements) else ""
        return (
            "learned: physics, device scalars and residuals fitted on measured kernels; the interval was "
            "measured on kernels and devices left out; see 'perfcast catalog predictors'"
            + (f"; moved by {moved}" if moved else "")
        )
    if cost_model.name == "linear":
        return "linear: fitted on kernels measured on this machine; see 'perfcast calibrate'"
    return f"{cost_model.name}: a published predictor, trained as its paper says; it states no interval"


def _about_host(request: Request, device: Device, cost_model: CostModel) -> str:
    if not knows_host(device, cost_model):
        return "the host is never late"
    processor = resolve_processor(request.host, device)
    usual = ", as such machines usually have (--host names another)" if processor.is_chosen else ""
    return f"kernels are issued by {processor.title}{usual}"
