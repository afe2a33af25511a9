"""A model's own modules on one device: captured, priced and added up, with what the allocator reserves."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.device import Forecast
from perfcast.memory_use.first_touch import with_first_touch
from perfcast.memory_use.reserved import reserve_memory
from perfcast.prediction.defaults import complete_request
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.one_device.forecast import forecast_from
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.one_device.host import check_host
from perfcast.prediction.program import PYTORCH
from perfcast.prediction.request.one_device import OneDeviceRequest


def predict_one_device(request: OneDeviceRequest) -> Forecast:
    """Capture the model, lower it to the device, price its operations and add them up.

    Raises:
        InputError: Unknown names, impossible sizes, a model that cannot be captured; the message says
            what to do.
    """
    device = resolve_device(request.device) if isinstance(request.device, str) else request.device
    workload, defaults = complete_request(request.workload, device)
    kernels = None if workload.mode == "train" else PYTORCH
    cost_model = resolve_cost_model(request.cost_model, device, kernels, request.weights)
    check_host(workload, device, cost_model)
    graph, sizes = build_graph(workload, device)
    if device.is_local:
        graph = with_first_touch(graph)
    forecast = forecast_from(graph, workload, device, cost_model, sizes)
    memory = replace(forecast.memory, reserved=reserve_memory(graph, device))
    return replace(forecast, memory=memory, defaults=defaults)
