"""A captured step beside the closed form of the same step, difference by difference."""

from __future__ import annotations

from perfcast.core.forecast.device import Forecast
from perfcast.errors import PlanError
from perfcast.memory.compare import Comparison, compare_with_liveness
from perfcast.memory.footprint.pytorch.step import estimate_eager
from perfcast.prediction.model import read_model
from perfcast.prediction.request.one_device import Request


def compare_with_closed_form(request: Request, forecast: Forecast) -> Comparison:
    """The moment of the closed form that holds most, against the peak of the forecast's graph.

    Raises:
        ModelError: A model that no closed form describes.
        PlanError: Several micro-batches or a compiled step, which the closed form does not know.
    """
    if request.num_micro_batches > 1 or request.compile or request.world_size is not None:
        raise PlanError("--closed-form is of one eager forward and backward on one device")
    moments = estimate_eager(
        read_model(request.model).sizes,
        mode=request.mode,
        batch_size=request.batch_size,
        sequence_length=forecast.sequence_length or 1,
        dtype=request.dtype,
        optimizer=request.optimizer,
        optimizer_implementation=request.optimizer_implementation or "foreach",
        recompute=request.recompute,
        attention="flash" if request.attention == "sdpa" else "math",
    )
    largest = max(moments, key=lambda moment: moment.num_bytes)
    return compare_with_liveness(largest, forecast.memory)
