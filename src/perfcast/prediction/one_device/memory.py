"""A request → the memory of one step, reserved memory included."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.captured import StepSizes
from perfcast.core.forecast.device import Forecast, ReservedMemory
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.memory_use.reserved import reserve_memory
from perfcast.prediction.names import memory_device
from perfcast.prediction.one_device.forecast import forecast_from
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.prediction.request.one_device import Request
from perfcast.units import format_bytes


def forecast_memory(request: MemoryRequest) -> Forecast:
    """Memory alone; times are NaN.

    Raises:
        InputError: Unknown names, impossible sizes, a model that cannot be captured; allocator settings that
            PyTorch refuses.
    """
    device = memory_device(request.device) if isinstance(request.device, str) else request.device
    graph, sizes = build_graph(request.workload, device)
    return memory_from(graph, sizes, request.workload, device, request.allocator)


def memory_from(
    graph: Graph, sizes: StepSizes, request: Request, device: Device, allocator: str = ""
) -> Forecast:
    """Like ``forecast_memory``, from the graph of the workload (``build_graph``)."""
    forecast = forecast_from(graph, request, device, None, sizes)
    reserved = reserve_memory(graph, device, allocator)
    if reserved is None:
        return forecast
    return replace(
        forecast,
        memory=replace(forecast.memory, reserved=reserved),
        assumptions=(*forecast.assumptions, *_about(reserved, device)),
    )


def _about(reserved: ReservedMemory, device: Device) -> tuple[str, ...]:
    settings = f" with {reserved.settings}" if reserved.settings else ""
    fits = (
        "it fits if what PyTorch's caching allocator reserves in the first three steps"
        f"{settings}, and the driver's context, are within the device's memory"
    )
    if not reserved.context_bytes:
        return fits, f"no context of the driver was measured on devices of {device.vendor}: none is counted"
    low, high = format_bytes(reserved.context_low_bytes), format_bytes(reserved.context_high_bytes)
    middle = format_bytes(reserved.context_bytes)
    return fits, f"a context of {middle}, the median of what others measured ({low} to {high})"
