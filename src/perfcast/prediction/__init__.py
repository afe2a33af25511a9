"""The front door: a model, a device and what to do with it → a Forecast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.plan import PlanForecast
    from perfcast.core.hardware import Device
    from perfcast.cost.model import CostModel
    from perfcast.prediction.names import (
        COST_MODELS,
        local_memory_bytes,
        resolve_cost_model,
        resolve_device,
    )
    from perfcast.prediction.one_device.forecast import forecast_from
    from perfcast.prediction.one_device.graph import build_graph
    from perfcast.prediction.one_device.predict import predict_one_device
    from perfcast.prediction.request.one_device import OneDeviceRequest, Request
    from perfcast.prediction.route import predict_either

#: Imported when first asked for: one device needs nothing of plans.
_HOME = {
    "COST_MODELS": "perfcast.prediction.names",
    "OneDeviceRequest": "perfcast.prediction.request.one_device",
    "Request": "perfcast.prediction.request.one_device",
    "build_graph": "perfcast.prediction.one_device.graph",
    "forecast_from": "perfcast.prediction.one_device.forecast",
    "local_memory_bytes": "perfcast.prediction.names",
    "predict_either": "perfcast.prediction.route",
    "predict_one_device": "perfcast.prediction.one_device.predict",
    "resolve_cost_model": "perfcast.prediction.names",
    "resolve_device": "perfcast.prediction.names",
}

__all__ = [
    "COST_MODELS",
    "OneDeviceRequest",
    "Request",
    "build_graph",
    "forecast_from",
    "local_memory_bytes",
    "predict",
    "predict_either",
    "predict_memory",
    "predict_one_device",
    "resolve_cost_model",
    "resolve_device",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def predict(
    model: str,
    device: str | Device,
    *,
    cost_model: str | CostModel | None = None,
    framework: str | None = None,
    weights: str | None = None,
    **options: object,
) -> Forecast | PlanForecast:
    """Forecast time and memory of one step on one device.

    Args:
        model, options: See ``Request``.
        device: Catalog name, ``FILE.toml``, 'cpu', or a Device.
        cost_model: 'learned', 'roofline' or 'linear', or an object that prices operations; by default
            'learned', for the local processor 'linear'.
        weights: Folder of trained models, for 'learned'; the shipped ones by default.
        framework: Whose program runs: 'pytorch', the model's own modules, or the kernels of one that trains
            ('megatron', 'fsdp', …) or serves ('vllm', 'sglang', 'trtllm'). By default a training is
            PyTorch's, and a transformer that generates is served by vLLM.

    Returns:
        A ``Forecast`` of the model's own modules; of a framework's kernels a ``PlanForecast`` of one device.
        Both have ``step_seconds`` with its interval, ``program``, ``memory`` and ``assumptions``.

    Raises:
        InputError: Unknown names, impossible sizes, a model that cannot be captured; the message says
            what to do.
    """
    from perfcast.prediction.request.one_device import OneDeviceRequest, Request
    from perfcast.prediction.route import predict_either

    workload = Request(model=model, **options)  # type: ignore[arg-type]
    return predict_either(
        OneDeviceRequest(
            workload=workload, device=device, cost_model=cost_model, framework=framework, weights=weights
        )
    )


def predict_memory(model: str, device: str | Device, *, allocator: str = "", **options: object) -> Forecast:
    """Forecast memory alone; times are NaN. The 'cpu' device needs no calibration for this.

    Args:
        model, device, options: As for ``predict``.
        allocator: Settings of PyTorch's caching allocator, as ``PYTORCH_CUDA_ALLOC_CONF`` writes them.
    """
    from perfcast.prediction.one_device.memory import forecast_memory
    from perfcast.prediction.request.memory import MemoryRequest
    from perfcast.prediction.request.one_device import Request

    workload = Request(model=model, **options)  # type: ignore[arg-type]
    return forecast_memory(MemoryRequest(workload=workload, device=device, allocator=allocator))
