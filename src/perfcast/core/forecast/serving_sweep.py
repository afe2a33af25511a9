"""Forecasts of serving over what is varied: loads, lengths, replicas, limits of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcast.core.forecast.fit import Fit
from perfcast.core.forecast.serving import ServingForecast


@dataclass(frozen=True, slots=True)
class SweptPoint:
    """One combination.

    Attributes:
        values: What is varied, as text, by the name of its option.
        forecast: None where ``skipped`` says why there is none.
    """

    values: Mapping[str, str]
    forecast: ServingForecast | None = field(repr=False)
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class ServingSweep:
    """All combinations, in the order in which they were asked for."""

    points: tuple[SweptPoint, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of what is varied."""
        return tuple(self.points[0].values) if self.points else ()

    @property
    def fits(self) -> tuple[Fit, ...]:
        """Of every point that has a forecast."""
        return tuple(
            fit for point in self.points if point.forecast is not None for fit in point.forecast.fits
        )
