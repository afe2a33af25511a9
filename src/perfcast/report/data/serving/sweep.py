"""What JSON holds of deployments under several loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.fit import all_fit, first_said
from perfcast.core.forecast.serving_sweep import ServingSweep, SweptPoint
from perfcast.report.answers import Answer
from perfcast.report.data.serving.forecast import ServingData, data_of


@dataclass(frozen=True, kw_only=True)
class SweptPointData:
    """One combination of what is varied.

    Attributes:
        values: What is varied, by the name of its option, as text.
        forecast: The answer; null where ``skipped`` says why there is none.
        skipped: Why there is no forecast; null where there is one.
    """

    values: Mapping[str, str]
    forecast: ServingData | None
    skipped: str | None


@dataclass(frozen=True, kw_only=True)
class ServingSweepData(Answer):
    """Deployments under several loads.

    Attributes:
        fits: Whether the devices' memory holds all of them; null where that is not known; no unit.
        verdict: What does not fit, or may not; empty where all surely fits.
        axes: Names of what is varied.
        points: Every combination.
    """

    table: ClassVar[str] = "rows"

    fits: bool | None
    verdict: str
    axes: tuple[str, ...]
    points: tuple[SweptPointData, ...]

    @property
    def rows(self) -> tuple[Mapping[str, object], ...]:
        """What is varied, and latencies and rates with the ends of their intervals."""
        return tuple(_row(point) for point in self.points)


def _row(point: SweptPointData) -> Mapping[str, object]:
    found: dict[str, object] = {**point.values, "skipped": point.skipped}
    for figure in () if point.forecast is None else point.forecast.answer.figures:
        found |= {
            figure.figure: figure.value,
            f"{figure.figure}_low": figure.low,
            f"{figure.figure}_high": figure.high,
        }
    return found


def sweep_data_of(found: ServingSweep) -> ServingSweepData:
    """Every figure in SI units."""
    return ServingSweepData(
        fits=all_fit(found.fits),
        verdict=first_said(found.fits),
        axes=found.axes,
        points=tuple(_point(point) for point in found.points),
    )


def _point(point: SweptPoint) -> SweptPointData:
    return SweptPointData(
        values=point.values,
        forecast=None if point.forecast is None else data_of(point.forecast),
        skipped=point.skipped or None,
    )
