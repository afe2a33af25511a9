"""A recommendation model's step as trace events: a process for each rank, a thread for each stream.

The format is that of ``traces.perfetto``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfcast.core.forecast.recommender import RecommenderForecast, RecommenderSpan
from perfcast.traces.perfetto import TICKS_PER_MICROSECOND, Event
from perfcast.units import MICRO

#: Threads from above.
STREAMS = ("compute", "exchange")


def recommender_forecast_to_trace_events(forecast: RecommenderForecast) -> dict[str, Any]:
    """The timeline as trace events."""
    events = [*_names(forecast), *(_complete(span, forecast) for span in forecast.spans)]
    return {
        "displayTimeUnit": "ms",
        "traceEvents": events,
        "otherData": {
            "model": forecast.model.name,
            "cluster": forecast.cluster,
            "num_devices": str(forecast.num_devices),
            "cost_model": forecast.cost_model,
            "dtype": forecast.dtype,
        },
    }


def _names(forecast: RecommenderForecast) -> Iterator[Event]:
    for rank in forecast.ranks:
        yield _named("process_name", rank.rank, 0, name=f"rank {rank.rank}")
        yield _named("process_sort_index", rank.rank, 0, sort_index=rank.rank)
        for thread, stream in enumerate(STREAMS, start=1):
            yield _named("thread_name", rank.rank, thread, name=f"{stream} stream")
            yield _named("thread_sort_index", rank.rank, thread, sort_index=thread)


def _named(what: str, process: int, thread: int, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _complete(span: RecommenderSpan, forecast: RecommenderForecast) -> Event:
    start, end = (
        round(seconds / MICRO * TICKS_PER_MICROSECOND) for seconds in (span.start_seconds, span.end_seconds)
    )
    num_bytes = forecast.exchange_bytes.get(span.label)
    return {
        "ph": "X",
        "name": span.label,
        "cat": span.stream,
        "pid": span.rank,
        "tid": STREAMS.index(span.stream) + 1,
        "ts": start / TICKS_PER_MICROSECOND,
        "dur": (end - start) / TICKS_PER_MICROSECOND,
        "args": {} if num_bytes is None else {"message_bytes": num_bytes},
    }
