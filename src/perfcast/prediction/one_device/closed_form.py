"""A captured step beside the closed form that plans are weighed with, difference by difference."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.footprint import PeakCandidate
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.errors import PlanError
from perfcast.frameworks.precision import serving_precision
from perfcast.memory_use.compare import Comparison, compare_with_liveness
from perfcast.memory_use.footprint import estimate_serving_footprint
from perfcast.memory_use.footprint.pytorch.step import estimate_eager
from perfcast.prediction.model import read_model
from perfcast.prediction.request.one_device import Request


def compare_with_closed_form(request: Request, forecast: Forecast) -> Comparison:
    """The peak candidate of the closed form that holds most, against the peak of the forecast's graph.

    Raises:
        ModelError: A model that no closed form describes.
        PlanError: Several micro-batches, a compiled step, or inference with attention written out, which the
            closed form does not know.
    """
    if request.num_micro_batches > 1 or request.compile or request.world_size is not None:
        raise PlanError("--closed-form is of one eager forward and backward on one device")
    candidates = _inference(request, forecast) if request.mode != "train" else _training(request, forecast)
    largest = max(candidates, key=lambda candidate: candidate.num_bytes)
    return compare_with_liveness(largest, forecast.memory)


def _training(request: Request, forecast: Forecast) -> tuple[PeakCandidate, ...]:
    return estimate_eager(
        read_model(request.model).sizes,
        batch_size=request.batch_size,
        sequence_length=forecast.sequence_length or 1,
        dtype=forecast.dtype,
        optimizer=request.optimizer,
        optimizer_implementation=request.optimizer_implementation or "foreach",
        recompute=request.recompute,
        attention="flash" if request.attention == "sdpa" else "math",
    )


def _inference(request: Request, forecast: Forecast) -> tuple[PeakCandidate, ...]:
    """Without a backward nothing is saved for one: activations are temporary, as they are on the graph."""
    if request.attention != "sdpa":
        raise PlanError(f"--closed-form --mode {request.mode} has fused attention only")
    footprint = estimate_serving_footprint(
        read_model(request.model).sizes,
        Plan(micro_batch_size=request.batch_size),
        serving_precision(forecast.dtype),
        forecast.sequence_length or 1,
        is_decode=request.mode == "decode",
        framework="pytorch",
    )
    peak = footprint.peak_stage.peak
    terms = (
        replace(term, category=Category.TEMPORARY) if term.category == Category.ACTIVATION else term
        for term in peak.terms
    )
    return (PeakCandidate(peak.name, tuple(terms)),)
