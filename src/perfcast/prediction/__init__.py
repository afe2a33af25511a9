"""The front door: a model, a device and what to do with it → a Forecast."""

from __future__ import annotations

from perfcast.core.forecast.device import Forecast
from perfcast.core.hardware import Device
from perfcast.cost.model import CostModel
from perfcast.memory.first_touch import with_first_touch
from perfcast.prediction.names import (
    COST_MODELS,
    local_memory_bytes,
    resolve_cost_model,
    resolve_device,
)
from perfcast.prediction.one_device.forecast import forecast_from
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.one_device.memory import forecast_memory
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.prediction.request.one_device import OneDeviceRequest, Request

__all__ = [
    "COST_MODELS",
    "OneDeviceRequest",
    "Request",
    "build_graph",
    "forecast_from",
    "local_memory_bytes",
    "predict",
    "predict_memory",
    "predict_one_device",
    "resolve_cost_model",
    "resolve_device",
]


def predict(
    model: str,
    device: str | Device,
    *,
    cost_model: str | CostModel | None = None,
    framework: str | None = None,
    weights: str | None = None,
    **options: object,
) -> Forecast:
    """Forecast time and memory of one step.

    Args:
        model, options: See ``Request``.
        device: Catalog name, ``FILE.toml``, 'cpu', or a Device.
        cost_model: 'learned', 'roofline' or 'linear', or an object that prices operations; by default
            'learned', for the local processor 'linear'.
        weights: Folder of trained models, for 'learned'; the shipped ones by default.
        framework: Whose kernels run ('pytorch', 'sglang', 'trtllm', 'vllm'), for 'learned'.

    Raises:
        InputError: Unknown names, impossible sizes, a model that cannot be captured; the message says
            what to do.
    """
    workload = Request(model=model, **options)  # type: ignore[arg-type]
    return predict_one_device(
        OneDeviceRequest(
            workload=workload, device=device, cost_model=cost_model, framework=framework, weights=weights
        )
    )


def predict_one_device(request: OneDeviceRequest) -> Forecast:
    """Capture the model, lower it to the device, price its operations and add them up.

    Raises:
        InputError: As ``predict``.
    """
    device = resolve_device(request.device) if isinstance(request.device, str) else request.device
    cost_model = resolve_cost_model(request.cost_model, device, request.framework, request.weights)
    graph, program = build_graph(request.workload, device)
    if device.is_cpu:
        graph = with_first_touch(graph)
    return forecast_from(graph, request.workload, device, cost_model, program)


def predict_memory(model: str, device: str | Device, *, allocator: str = "", **options: object) -> Forecast:
    """Forecast memory alone; times are NaN. The 'cpu' device needs no calibration for this.

    Args:
        model, device, options: As for ``predict``.
        allocator: Settings of PyTorch's caching allocator, as ``PYTORCH_CUDA_ALLOC_CONF`` writes them.
    """
    workload = Request(model=model, **options)  # type: ignore[arg-type]
    return forecast_memory(MemoryRequest(workload=workload, device=device, allocator=allocator))
