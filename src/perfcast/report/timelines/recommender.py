"""The timeline of a recommendation model's step: a process for each rank, a thread for each stream."""

from __future__ import annotations

from collections.abc import Iterator

from perfcast.core.forecast.recommender import RecommenderForecast
from perfcast.report.timeline_events import Process, Slice, Thread, TimelineEvent

#: Threads from above.
STREAMS = ("compute", "communication")


def about(forecast: RecommenderForecast) -> dict[str, str]:
    """What a viewer shows of the whole."""
    return {
        "model": forecast.model.name,
        "cluster": forecast.cluster,
        "num_devices": str(forecast.num_devices),
        "cost_model": forecast.cost_model,
        "dtype": forecast.dtype,
    }


def events_of(forecast: RecommenderForecast) -> Iterator[TimelineEvent]:
    """The whole step."""
    for rank in forecast.ranks:
        yield Process(rank.rank, f"rank {rank.rank}", rank.rank)
        for thread, stream in enumerate(STREAMS, start=1):
            yield Thread(rank.rank, thread, f"{stream} stream")
    for span in forecast.spans:
        num_bytes = forecast.communication_bytes.get(span.label)
        yield Slice(
            span.rank,
            STREAMS.index(span.stream) + 1,
            span.start_seconds,
            span.end_seconds,
            span.label,
            span.stream,
            {} if num_bytes is None else {"message_bytes": num_bytes},
        )
