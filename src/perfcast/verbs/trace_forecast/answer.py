"""What answers the question of ``perfcast trace forecast``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.errors import PlanError, QuestionError
from perfcast.files.limits import parse_size
from perfcast.verbs.result import shown
from perfcast.verbs.shared.recordings import parse_steps
from perfcast.verbs.trace_forecast.question import TraceForecastQuestion
from perfcast.verbs.trace_forecast.result import TraceForecastResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfcast.core.machine.cluster import Cluster
    from perfcast.traces.events import Trace
    from perfcast.traces.forecast.ratios import Side
    from perfcast.traces.forecast.request import SecondRecording, TraceForecastRequest
    from perfcast.traces.overheads.profile import OverheadProfile
    from perfcast.verbs.answer import OnProgress


def answer(asked: TraceForecastQuestion, *, on_progress: OnProgress | None = None) -> TraceForecastResult:
    """The forecast of what was recorded.

    Raises:
        InputError: A recording that cannot be read, or lacks what is needed; unknown names; changes that
            meet nothing.
        QuestionError: Options of which one needs another.
    """
    from perfcast.traces.forecast.from_traces import forecast_from_traces
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    if (asked.batch_size is None) != (asked.recorded_batch_size is None):
        raise QuestionError("--batch-size and --recorded-batch-size belong together")
    if bool(asked.second) != (asked.second_batch_size is not None):
        raise QuestionError("--second and --second-batch-size belong together")
    _check_hosts(asked)
    parse_steps("--steps", asked.steps)
    tell = on_progress or (lambda share, text: None)
    tell(None, "reading the recordings")
    most = parse_size("--max-bytes", asked.text("max_bytes"))
    recorded = read_ranks_with_inputs(asked.traces, max_bytes=most)
    tell(0.5, "forecasting the steps")
    found = forecast_from_traces(recorded, _request(asked, recorded, most))
    return shown(TraceForecastResult, found, asked)


def _check_hosts(asked: TraceForecastQuestion) -> None:
    named = [("--host", asked.host), ("--recorded-host", asked.recorded_host)]
    for option, name in named:
        if name is None:
            continue
        if asked.overheads is not None:
            raise QuestionError(f"{option} and --overheads both say what the host takes: give one of them")
        if asked.device is None:
            raise QuestionError(f"{option} is of a machine with another device: it needs --device")


def _request(
    asked: TraceForecastQuestion, recorded: Sequence[Trace], most_bytes: int
) -> TraceForecastRequest:
    from perfcast.traces.forecast.recording_cost import plain_step_seconds, plain_steps
    from perfcast.traces.forecast.request import TraceForecastRequest
    from perfcast.traces.forecast.what_if import parse_what_if
    from perfcast.traces.scaling.recorded.read import calls_beside

    changes = parse_what_if(asked.what_if)
    before, after = _sides(asked, recorded[0])
    has_batch = asked.recorded_batch_size is not None and asked.batch_size is not None
    return TraceForecastRequest(
        before=before,
        after=after,
        batch=(asked.count("recorded_batch_size"), asked.count("batch_size")) if has_batch else None,
        cluster=_find_cluster(asked.cluster),
        world_size=asked.world_size,
        host=asked.host,
        recorded_host=asked.recorded_host,
        profile=_load_overheads(asked.overheads),
        changes=changes,
        plain_seconds=plain_step_seconds(asked.traces),
        plain_steps=plain_steps(asked.traces),
        calls=calls_beside(asked.traces, recorded, max_bytes=most_bytes) if has_batch else {},
        second=_second(asked, most_bytes),
        steps=parse_steps("--steps", asked.steps),
    )


def _second(asked: TraceForecastQuestion, most_bytes: int) -> SecondRecording | None:
    if asked.second_batch_size is None:
        return None
    from perfcast.traces.forecast.recording_cost import plain_step_seconds
    from perfcast.traces.forecast.request import SecondRecording
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    traces = read_ranks_with_inputs(asked.second, max_bytes=most_bytes)
    return SecondRecording(traces, asked.second_batch_size, plain_step_seconds(asked.second))


def _sides(asked: TraceForecastQuestion, trace: Trace) -> tuple[Side | None, Side | None]:
    """What prices the recorded and the wanted device; nothing where neither device nor batch changes."""
    from perfcast.prediction import resolve_device
    from perfcast.traces.forecast.ratios import Side
    from perfcast.verbs.shared.cost_model import choose_cost_model

    if asked.device is None and asked.batch_size is None:
        return None, None
    named = asked.recorded_device or _recorded_device(trace)
    if named is None:
        if asked.device is None:
            return None, None
        what = trace.devices[0].name if trace.devices else "a processor"
        raise PlanError(
            f"recorded on {what}, which the catalog does not have; name it with --recorded-device"
        )
    sides = []
    for name in (named, asked.device or named):
        model = choose_cost_model(asked.cost_model, name, None, None)
        sides.append(Side(resolve_device(name), model, asked.dtype or ""))
    return sides[0], sides[1]


def _recorded_device(trace: Trace) -> str | None:
    from perfcast.catalogs.devices import find_device_name

    return find_device_name(trace.devices[0].name) if trace.devices else None


def _find_cluster(text: str | None) -> Cluster | None:
    if text is None:
        return None
    from perfcast.prediction.plan.cluster import cluster_by_name

    return cluster_by_name(text, None)


def _load_overheads(path: str | None) -> OverheadProfile | None:
    if path is None:
        return None
    from perfcast.traces.overheads.store import load_overheads

    return load_overheads(path)
