"""What a footprint says of a measurement: the same stage, the same kind of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from perfcast.core.forecast.footprint import Footprint, StageFootprint, Term
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.errors import InputError, UncoveredOperationError
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.runs.lines import Run
from perfcast.memory_use.footprint.spread import ANY, Spread, load_spread

SpreadOf = Callable[[str], Spread]
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


def forecast_cases(
    cases: Sequence[MemoryCase], predictor: Predictor, spreads: SpreadOf = load_spread
) -> list[MemoryForecast]:
    """One forecast for each case; each different run on each device is asked for once.

    Args:
        spreads: Of a framework, that intervals of what was measured are made with.
    """
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
        forecast = read_forecast(found, case, spreads)
        if case.run.instead is not None:
            other = _ask(replace(case.run, training=case.run.instead), case.accelerator, predictor)
            if not isinstance(other, str):
                forecast = _holding_both(forecast, read_forecast(other, case, spreads))
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


def footprint_of(case: MemoryCase, predictor: Predictor) -> Footprint | str:
    """The footprint of a case that describes its run, or why there is none."""
    if case.run is None or case.skipped:
        return case.skipped or "unsupported plan"
    return _ask(case.run, case.accelerator, predictor)


def read_forecast(footprint: Footprint, case: MemoryCase, spreads: SpreadOf = load_spread) -> MemoryForecast:
    """The footprint's answer to what the case measured, as sure as what that consists of."""
    if case.metric == "outcome":
        return _read_outcome(footprint, case.capacity_bytes)
    terms = measured_terms(footprint, case)
    value = sum(term.num_bytes for term in terms)
    spread = spreads(case.run.training.framework if case.run else ANY)
    low, high = spread.bounds(terms)
    if case.metric == "reserved":
        context = footprint.context_bytes if case.measured_by == "nvidia-smi" else 0
        value, low, high = footprint.reserved_bytes, low, round(high * spread.reserved_high)
        return MemoryForecast(
            value + context, low + context, high + context, assumptions=footprint.assumptions
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


def measured_terms(footprint: Footprint, case: MemoryCase) -> tuple[Term, ...]:
    """The terms that a case measured: a stage's peak, what stays after a step, or a part of the peak."""
    stage = _stage(footprint, case.measured_stage)
    if case.metric == "allocated_steady":
        return next(moment.terms for moment in stage.peak_candidates if moment.name == "optimizer")
    terms = stage.peak.terms
    if case.metric == "model_states":
        return tuple(term for term in terms if term.category in _MODEL_STATES)
    if case.metric == "activation_peak":
        return tuple(term for term in terms if term.category not in _MODEL_STATES)
    if case.metric == "activation":
        return tuple(term for term in terms if term.category == Category.ACTIVATION)
    return terms
