"""The front door: a model, a device and what to do with it → a Forecast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "predict_either",
    "predict_one_device",
    "resolve_cost_model",
    "resolve_device",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found
