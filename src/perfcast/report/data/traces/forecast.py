"""What JSON holds of a forecast from a recording."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.report.answers import Answer, view
from perfcast.traces.forecast.from_traces import TraceForecast


@dataclass(frozen=True, kw_only=True)
class RecordedStepData:
    """One recorded step and its forecast.

    Attributes:
        number: As it is marked; no unit.
        kind: Equal for steps that do the same; no unit.
        num_operators: Outermost operators of its host; a count.
        recorded_seconds: As its mark says; seconds.
        once_seconds: Its forecast, begun as it was recorded; seconds.
        seconds: Its forecast in the long run; seconds.
    """

    number: int
    kind: int
    num_operators: int
    recorded_seconds: float
    once_seconds: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class UnresolvedSizeData:
    """A size that may or may not follow the batch.

    Attributes:
        what: Where it came from.
        size: As recorded; a count, 0 where it is not known.
        follows: Whether the forecast takes it to follow.
        seconds: Recorded time that it decides, a step; seconds.
    """

    what: str
    size: int
    follows: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class UnexplainedGapData:
    """A pause of a stream that nothing recorded explains.

    Attributes:
        before: Name of the work that it stands before.
        stream: Its stream.
        step: Place of the step in the recording; no unit.
        seconds: How long; seconds.
    """

    before: str
    stream: str
    step: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TraceForecastData(Answer):
    """A step forecast from a recording.

    Attributes:
        source: File; no unit.
        recorded_device: Device in the recording; no unit.
        device: Wanted device, empty for the recorded one; no unit.
        num_ranks: Recorded ranks; a count.
        measured_seconds: Mean recorded step; seconds.
        replayed_seconds: The recorded program run again once, from where its ranks began; seconds.
        steady_seconds: The recorded program in the long run, as the forecast is; seconds.
        unchanged_seconds: That without what recording cost its host; seconds.
        step_seconds: Forecast step; seconds.
        step_seconds_low: Low end; seconds.
        step_seconds_high: High end; seconds.
        once_seconds: Forecast step run once, begun as it was recorded; seconds.
        once_seconds_low: Low end; seconds.
        once_seconds_high: High end; seconds.
        device_seconds_before: Device work of a step, communication aside, as recorded; seconds.
        device_seconds_after: The same in the forecast; seconds.
        device_seconds_low: Low end of that; seconds.
        device_seconds_high: High end; seconds.
        host_seconds_before: Host time of a step without waiting, as recorded; seconds.
        host_seconds_after: The same in the forecast; seconds.
        host_seconds_low: Low end of that; seconds.
        host_seconds_high: High end; seconds.
        seconds_by_provenance: Recorded work by what its price rests on; seconds.
        steps: Each step of those asked for.
        assumptions: What was taken for granted.
        unresolved: Sizes of which the recording does not show whether they follow the batch.
        unexplained: The longest pauses of streams that nothing recorded explains.
        unexplained_seconds: All of them, a step; seconds.
        speedup: Recorded, without what recording cost, over forecast step; a ratio.
    """

    source: str
    recorded_device: str
    device: str
    num_ranks: int
    measured_seconds: float
    replayed_seconds: float
    steady_seconds: float
    unchanged_seconds: float
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    once_seconds: float
    once_seconds_low: float
    once_seconds_high: float
    device_seconds_before: float
    device_seconds_after: float
    device_seconds_low: float
    device_seconds_high: float
    host_seconds_before: float
    host_seconds_after: float
    host_seconds_low: float
    host_seconds_high: float
    seconds_by_provenance: dict[str, float]
    steps: tuple[RecordedStepData, ...]
    assumptions: tuple[str, ...]
    unresolved: tuple[UnresolvedSizeData, ...]
    unexplained: tuple[UnexplainedGapData, ...]
    unexplained_seconds: float
    speedup: float


def data_of(forecast: TraceForecast) -> TraceForecastData:
    """Everything."""
    return view(TraceForecastData, forecast)
