"""What a footprint says of a measurement: the same stage, the same kind of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from perfcast.core.forecast.footprint import Footprint, StageFootprint
from perfcast.core.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.errors import InputError, UncoveredOperationError
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.runs.lines import Run

#: What stays from step to step.
_MODEL_STATES = (Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE)


class Predictor(Protocol):
    """Anything that answers as ``memory.footprint.estimate_footprint`` does."""

    def __call__(
        self,
        model: Transformer,
        plan: Plan,
        training: Training,
        sequence_length: int,
        *,
        device: Device | None = None,
    ) -> Footprint:
        """What a rank of each stage holds."""


@dataclass(frozen=True)
class MemoryForecast:
    """Bytes of what was measured, with their 90 % interval; of an outcome what the device would hold.

    Attributes:
        skipped: Why there are none.
    """

    num_bytes: int | None = None
    low: int | None = None
    high: int | None = None
    fits: bool | None = None
    assumptions: tuple[str, ...] = ()
    skipped: str | None = None


def forecast_cases(cases: Sequence[MemoryCase], predictor: Predictor) -> list[MemoryForecast]:
    """One forecast for each case; each different run on each device is asked for once."""
    asked: dict[tuple[Run, str | None], Footprint | str] = {}
    forecasts = []
    for case in cases:
        if case.run is None or case.skipped:
            forecasts.append(MemoryForecast(skipped=case.skipped))
            continue
        key = (case.run, case.catalog_device)
        if key not in asked:
            asked[key] = _ask(case.run, case.accelerator, predictor)
        found = asked[key]
        if isinstance(found, str):
            forecasts.append(MemoryForecast(skipped=found))
            continue
        forecast = read_forecast(found, case)
        if case.run.instead is not None:
            other = _ask(replace(case.run, training=case.run.instead), case.accelerator, predictor)
            if not isinstance(other, str):
                forecast = _holding_both(forecast, read_forecast(other, case))
        forecasts.append(forecast)
    return forecasts


def _holding_both(forecast: MemoryForecast, other: MemoryForecast) -> MemoryForecast:
    """The forecast, with an interval that holds that of another reading of the same line."""
    if None in (forecast.low, forecast.high, other.low, other.high):
        return forecast
    low, high = min(forecast.low or 0, other.low or 0), max(forecast.high or 0, other.high or 0)
    return replace(forecast, low=low, high=high)


def _ask(run: Run, device: Device | None, predictor: Predictor) -> Footprint | str:
    """The footprint, or why there is none."""
    try:
        return predictor(run.model, run.plan, run.training, run.sequence_length, device=device)
    except UncoveredOperationError:
        return "unsupported operation"
    except InputError:
        return "unsupported plan"


def read_forecast(footprint: Footprint, case: MemoryCase) -> MemoryForecast:
    """The footprint's answer to what the case measured.

    The interval of a stage, or of a part, is as wide relative to it as that of the whole peak or reserve.
    """
    stage = _stage(footprint, case.measured_stage)
    if case.metric == "outcome":
        return _read_outcome(footprint, case.capacity_bytes)
    if case.metric == "reserved":
        context = footprint.context_bytes if case.measured_by == "nvidia-smi" else 0
        held = (footprint.reserved_bytes, footprint.reserved_bytes_low, footprint.reserved_bytes_high)
        value, low, high = (part + context for part in held)
        return MemoryForecast(value, low, high, assumptions=footprint.assumptions)
    value = _part(stage, case.metric)
    low, high = (
        round(value * end / footprint.peak_bytes)
        for end in (footprint.peak_bytes_low, footprint.peak_bytes_high)
    )
    return MemoryForecast(value, low, high, assumptions=footprint.assumptions)


def _read_outcome(footprint: Footprint, capacity_bytes: int | None) -> MemoryForecast:
    if capacity_bytes is None:
        return MemoryForecast(skipped="unknown device")
    context = footprint.context_bytes
    return MemoryForecast(
        footprint.device_bytes,
        footprint.reserved_bytes_low + context,
        footprint.reserved_bytes_high + context,
        fits=footprint.device_bytes <= capacity_bytes,
        assumptions=footprint.assumptions,
    )


def _stage(footprint: Footprint, which: str) -> StageFootprint:
    if which == "peak":
        return footprint.peak_stage
    return footprint.stages[0 if which == "first" else -1]


def _part(stage: StageFootprint, metric: str) -> int:
    """Bytes at the stage's peak that a metric counts."""
    peak = stage.peak
    states = sum(term.num_bytes for term in peak.terms if term.category in _MODEL_STATES)
    if metric == "allocated_steady":
        return next(moment.num_bytes for moment in stage.peak_candidates if moment.name == "optimizer")
    if metric == "model_states":
        return states
    if metric == "activation_peak":
        return peak.num_bytes - states
    if metric == "activation":
        return sum(term.num_bytes for term in peak.terms if term.category == Category.ACTIVATION)
    return peak.num_bytes
