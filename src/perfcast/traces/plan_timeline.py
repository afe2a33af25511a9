"""A step under a plan as trace events: a process for each differing rank, a thread for each stream.

The format is that of ``traces.perfetto``. Arrows follow each micro-batch from stage to stage, forwards down
the pipeline, backwards up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perfcast.core.forecast.plan import PlanForecast, RankTime, Span
from perfcast.errors import PlanError
from perfcast.traces.perfetto import TICKS_PER_MICROSECOND, Event
from perfcast.units import MICRO

#: Threads from above; streams that are not named come after.
COMPUTE = "compute"
WEIGHT_GRADIENT = "gradient of weights"
STREAMS = (COMPUTE, "tensor", "context", "expert", "data", "pipeline", "copy", "host")


def plan_forecast_to_trace_events(forecast: PlanForecast) -> dict[str, Any]:
    """The timeline as trace events.

    Raises:
        PlanError: The forecast has no timeline.
    """
    spans = forecast.time.spans
    if not spans:
        raise PlanError("no timeline: a closed form has none; leave --closed-form out")
    events = [*_names(forecast.time.ranks, spans)]
    events += [_complete(span) for span in spans]
    events += _arrows(spans)
    return {
        "displayTimeUnit": "ms",
        "traceEvents": events,
        "otherData": {
            "model": forecast.model,
            "cluster": forecast.cluster,
            "num_devices": str(forecast.num_devices),
            "cost_model": forecast.cost_model,
            "dtype": forecast.dtype,
        },
    }


def _names(ranks: Iterable[RankTime], spans: Iterable[Span]) -> Iterator[Event]:
    used = {(span.rank, span.stream) for span in spans}
    for order, rank in enumerate(sorted(ranks, key=lambda r: (r.stage, r.rank))):
        equal = f", stands for {rank.num_equal}" if rank.num_equal > 1 else ""
        yield _named("process_name", rank.rank, 0, name=f"stage {rank.stage}, rank {rank.rank}{equal}")
        yield _named("process_sort_index", rank.rank, 0, sort_index=order)
        for stream in sorted({stream for of, stream in used if of == rank.rank}, key=_thread):
            yield _named("thread_name", rank.rank, _thread(stream), name=f"{stream} stream")
            yield _named("thread_sort_index", rank.rank, _thread(stream), sort_index=_thread(stream))


def _named(what: str, process: int, thread: int, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _thread(stream: str) -> int:
    return STREAMS.index(stream) + 1 if stream in STREAMS else len(STREAMS) + 1


def _ticks(seconds: float) -> int:
    return round(seconds / MICRO * TICKS_PER_MICROSECOND)


def _complete(span: Span) -> Event:
    start, end = _ticks(span.start_seconds), _ticks(span.end_seconds)
    args: dict[str, object] = {"cause": span.cause, "on_critical_path": span.on_critical_path}
    if span.micro_batch >= 0:
        args["micro_batch"] = span.micro_batch
    return {
        "ph": "X",
        "name": span.label,
        "cat": span.cause,
        "pid": span.rank,
        "tid": _thread(span.stream),
        "ts": start / TICKS_PER_MICROSECOND,
        "dur": (end - start) / TICKS_PER_MICROSECOND,
        "args": args,
    }


def _arrows(spans: Iterable[Span]) -> Iterator[Event]:
    """An arrow wherever a micro-batch leaves the compute stream of one rank for that of another.

    Gradients of weights stay where they are; nothing follows from them.
    """
    last: dict[int, Span] = {}
    number = 0
    computed = (
        span
        for span in spans
        if span.stream == COMPUTE and span.micro_batch >= 0 and WEIGHT_GRADIENT not in span.label
    )
    for span in sorted(computed, key=lambda s: (s.start_seconds, s.end_seconds)):
        before = last.get(span.micro_batch)
        last[span.micro_batch] = span
        if before is None or before.rank == span.rank or before.end_seconds > span.start_seconds:
            continue
        number += 1
        name = f"micro-batch {span.micro_batch}"
        yield _arrow("s", name, number, before.rank, _ticks(before.start_seconds))
        yield _arrow("f", name, number, span.rank, _ticks(span.start_seconds)) | {"bp": "e"}


def _arrow(phase: str, name: str, number: int, rank: int, ticks: int) -> Event:
    """Start ("s") or end ("f") of an arrow; it is tied to the event that encloses its time."""
    return {
        "ph": phase,
        "name": name,
        "cat": "micro-batch",
        "id": number,
        "pid": rank,
        "tid": _thread(COMPUTE),
        "ts": ticks / TICKS_PER_MICROSECOND,
    }
