"""Steps of a recording left out, and forecast from the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcast.errors import TraceError
from perfcast.evidence.validate.recordings.found import Recording
from perfcast.evidence.validate.row import Row
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.overheads.profile import fit_overheads
from perfcast.traces.timeline.program import RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.traces.timeline.startup import without_startup

#: What a forecast of a step may see of it: what it does and what its device ran, or nothing.
OWN_WORK, OTHERS = "host of the other steps", "the steps before or after"


def rows_left_out(recording: Recording) -> Iterator[Row]:
    """Each step but the first one, which holds the profiler's start and finds the queue empty."""
    steps = _programs(recording)
    numbers = list(steps)
    for place in range(1, len(numbers)):
        number = numbers[place]
        others = [steps[other] for other in numbers if other != number]
        profile = fit_overheads([without_startup(recording.trace, step, others) for step in others])
        request = TraceForecastRequest(steps=[number], profile=profile)
        found = forecast_from_traces([recording.trace], request)
        ends = (found.once_seconds, found.once_seconds_low, found.once_seconds_high)
        yield _row(recording, number, OWN_WORK, ends, found)
        for shown in (numbers[:place], numbers[place + 1 :]):
            if shown:
                yield _from_others(recording, number, shown, found.measured_seconds)


def _from_others(recording: Recording, number: int, shown: Sequence[int], measured: float) -> Row:
    found = forecast_from_traces([recording.trace], TraceForecastRequest(steps=shown))
    ends = (found.step_seconds, found.step_seconds_low, found.step_seconds_high)
    return _row(recording, number, OTHERS, ends, found, measured)


def _programs(recording: Recording) -> dict[int, RankProgram]:
    """Programs of the steps in which anything ran on the host."""
    found = {}
    for step in recording.trace.steps:
        try:
            found[step.number] = build_ranks([recording.trace], [step.number])[0]
        except TraceError:
            continue
    return found


def _row(
    recording: Recording,
    number: int,
    seen: str,
    ends: tuple[float, float, float],
    found: TraceForecast,
    measured: float | None = None,
) -> Row:
    return Row(
        suite="recordings",
        table=recording.path.parent.name,
        row=f"{recording.path.name.removesuffix('.json.gz')} step {number}, by {seen}",
        device=recording.device or "unknown",
        catalog_device=recording.device or None,
        operation=f"step left out, by {seen}",
        mode="steps left out",
        predictor=seen,
        columns={"recording": recording.path.name, "step": number, "shown": [s.number for s in found.steps]},
        predicted_seconds=ends[0],
        predicted_seconds_low=ends[1],
        predicted_seconds_high=ends[2],
        measured_seconds=found.measured_seconds if measured is None else measured,
        provenance="measured",
    )
