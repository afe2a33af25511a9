"""Forecast how fast deep-learning training and inference run, and how much memory they need.

>>> import perfcast as pc
>>> forecast = pc.predict("gpt2-large", "h100-sxm", mode="train", batch_size=4)
>>> forecast.step_seconds, forecast.memory.peak_bytes  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.plan import PlanForecast
    from perfcast.core.forecast.serving import ServingForecast
    from perfcast.core.plan import Plan
    from perfcast.errors import InputError, PerfcastError
    from perfcast.prediction import Request
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.prediction.request.serving import ServingRequest
    from perfcast.prediction.serving.predict import predict_serving
    from perfcast.prediction.step.predict import predict_plan
    from perfcast.traces.record.recorder import trace_step
    from perfcast.verbs import catalog, trace
    from perfcast.verbs.explain_result.answer import explain_result
    from perfcast.verbs.memory.answer import memory, predict_memory
    from perfcast.verbs.mesh_cost.answer import mesh_cost
    from perfcast.verbs.predict.answer import predict
    from perfcast.verbs.replay.answer import replay
    from perfcast.verbs.scale.answer import scale
    from perfcast.verbs.search.answer import search
    from perfcast.verbs.serving.answer import serving
    from perfcast.verbs.shard.answer import shard

__version__ = "0.1.0"

_HOME = {
    "Forecast": "perfcast.core.forecast.device",
    "InputError": "perfcast.errors",
    "PerfcastError": "perfcast.errors",
    "Plan": "perfcast.core.plan",
    "PlanForecast": "perfcast.core.forecast.plan",
    "PlanRequest": "perfcast.prediction.request.plan",
    "Request": "perfcast.prediction",
    "ServingForecast": "perfcast.core.forecast.serving",
    "ServingRequest": "perfcast.prediction.request.serving",
    "catalog": "perfcast.verbs.catalog",
    "explain_result": "perfcast.verbs.explain_result.answer",
    "memory": "perfcast.verbs.memory.answer",
    "mesh_cost": "perfcast.verbs.mesh_cost.answer",
    "predict": "perfcast.verbs.predict.answer",
    "predict_memory": "perfcast.verbs.memory.answer",
    "predict_plan": "perfcast.prediction.step.predict",
    "predict_serving": "perfcast.prediction.serving.predict",
    "replay": "perfcast.verbs.replay.answer",
    "scale": "perfcast.verbs.scale.answer",
    "search": "perfcast.verbs.search.answer",
    "serving": "perfcast.verbs.serving.answer",
    "shard": "perfcast.verbs.shard.answer",
    "trace": "perfcast.verbs.trace",
    "trace_step": "perfcast.traces.record.recorder",
}
#: Modules whose functions are called by their name, as ``perfcast.trace.explain``.
_NAMESPACES = ("catalog", "trace")

__all__ = [
    "Forecast",
    "InputError",
    "PerfcastError",
    "Plan",
    "PlanForecast",
    "PlanRequest",
    "Request",
    "ServingForecast",
    "ServingRequest",
    "__version__",
    "catalog",
    "explain_result",
    "memory",
    "mesh_cost",
    "predict",
    "predict_memory",
    "predict_plan",
    "predict_serving",
    "replay",
    "scale",
    "search",
    "serving",
    "shard",
    "trace",
    "trace_step",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that ``import perfcast`` is instant."""
    if name in _HOME:
        import importlib

        home = importlib.import_module(_HOME[name])
        value = home if name in _NAMESPACES else getattr(home, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'perfcast' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What is public."""
    return sorted(__all__)
