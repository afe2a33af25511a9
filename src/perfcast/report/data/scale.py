"""What JSON holds of scaling curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from perfcast.core.forecast.fit import all_fit, first_said
from perfcast.core.mode import Method
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.training import Training
from perfcast.prediction.sweep.scale import ScaleCurve, ScaleForecast, ScalePoint
from perfcast.report.answers import Answer, view


@dataclass(frozen=True, kw_only=True)
class PointData:
    """One number of devices; what has no forecast has nulls and says why.

    Attributes:
        num_devices: Devices.
        batch_size: Sequences of a step, over all devices.
        skipped: Why there is no forecast; null where there is one.
        efficiency: Tokens per second and device over those of the cluster's first point; a fraction.
        exposed_communication_share: Part of the step that is communication which no compute hides.
        bubble_share: Part of the step that stages wait for one another.
        step_seconds: Best estimate, in seconds.
        step_seconds_low: Low end of a 90 % interval, in seconds.
        step_seconds_high: High end of a 90 % interval, in seconds.
        tokens_per_second: Over all devices.
        tokens_per_second_per_device: Of one device.
        mfu: Model flops over what all devices could do; a fraction.
        hfu: The same with recomputed flops; a fraction.
        method: simulated or closed_form.
        seconds_by_cause: What a step goes to, in seconds.
        plan: Keys of the plan.
        fits: Whether the memory holds it; null where that is not known.
    """

    num_devices: int
    batch_size: int
    skipped: str | None
    efficiency: float | None
    exposed_communication_share: float | None
    bubble_share: float | None
    step_seconds: float | None
    step_seconds_low: float | None
    step_seconds_high: float | None
    tokens_per_second: float | None
    tokens_per_second_per_device: float | None
    mfu: float | None
    hfu: float | None
    method: Method | None
    seconds_by_cause: Mapping[str, float] | None
    plan: Plan | None
    fits: bool | None


@dataclass(frozen=True, kw_only=True)
class CurveData:
    """One cluster.

    Attributes:
        cluster: Catalog name.
        title: Name in words.
        device: Catalog name.
        points: By the number of devices.
    """

    cluster: str
    title: str
    device: str
    points: tuple[PointData, ...]


@dataclass(frozen=True, kw_only=True)
class ScaleData(Answer):
    """Scaling curves.

    Attributes:
        fits: Whether the device's memory holds it; null where that is not known; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        kind: weak where the batch grows with the devices.
        training: How numbers are kept, and by whose program.
        programs: What runs at the points: its framework, whether the model's own modules are captured and
            compiled, and which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        sequence_length: Tokens.
        batch_size: Sequences of the smallest number of devices; with strong scaling of all.
        curves: One for each cluster.
        assumptions: What was taken for granted.
    """

    table: ClassVar[str] = "curves[cluster,device].points"

    fits: bool | None
    verdict: str
    model: str
    kind: Literal["weak", "strong"]
    training: Training | None
    programs: tuple[StepProgram, ...]
    defaults: tuple[str, ...]
    sequence_length: int
    batch_size: int
    curves: tuple[CurveData, ...]
    assumptions: tuple[str, ...]


def data_of(found: ScaleForecast) -> ScaleData:
    """Every figure in SI units."""
    kind: Literal["weak", "strong"] = "weak" if found.is_weak else "strong"
    return view(
        ScaleData,
        found,
        fits=all_fit(found.fits),
        verdict=first_said(found.fits),
        kind=kind,
        curves=tuple(_curve(curve) for curve in found.curves),
    )


def _curve(curve: ScaleCurve) -> CurveData:
    return view(CurveData, curve, points=tuple(_point(point) for point in curve.points))


#: What of a point's forecast has the same name there.
_OF_FORECAST = (
    "step_seconds",
    "step_seconds_low",
    "step_seconds_high",
    "tokens_per_second",
    "tokens_per_second_per_device",
    "mfu",
    "hfu",
    "method",
    "plan",
)


def _point(point: ScalePoint) -> PointData:
    forecast = point.forecast
    memory = None if forecast is None else forecast.memory
    return view(
        PointData,
        point,
        skipped=point.skipped or None,
        exposed_communication_share=point.exposed_share,
        seconds_by_cause=None if forecast is None else forecast.time.seconds_by_cause,
        fits=None if memory is None else memory.fits,
        **{name: getattr(forecast, name, None) for name in _OF_FORECAST},
    )
