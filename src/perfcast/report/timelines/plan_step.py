"""The timeline of a step under a plan: a process for each differing rank, a thread for each stream.

Arrows follow each micro-batch from stage to stage, forwards down the pipeline, backwards up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfcast.core.forecast.plan import PlanForecast, RankTime, Span
from perfcast.errors import PlanError
from perfcast.report.timeline_events import Flow, Process, Slice, Thread, TimelineEvent

#: Threads from above; streams that are not named come after.
COMPUTE = "compute"
WEIGHT_GRADIENT = "gradient of weights"
STREAMS = (COMPUTE, "tensor", "context", "expert", "data", "pipeline", "copy", "host")


def about(forecast: PlanForecast) -> dict[str, str]:
    """What a viewer shows of the whole."""
    return {
        "model": forecast.model,
        "cluster": forecast.cluster,
        "num_devices": str(forecast.num_devices),
        "cost_model": forecast.cost_model,
        "dtype": forecast.dtype,
    }


def events_of(forecast: PlanForecast) -> Iterator[TimelineEvent]:
    """The whole step.

    Raises:
        PlanError: The forecast has no timeline.
    """
    spans = forecast.time.spans
    if not spans:
        raise PlanError("no timeline: a closed form has none; leave --closed-form out")
    yield from _names(forecast.time.ranks, spans)
    for span in spans:
        yield _slice(span)
    yield from _arrows(spans)


def _names(ranks: Iterable[RankTime], spans: Iterable[Span]) -> Iterator[TimelineEvent]:
    used = {(span.rank, span.stream) for span in spans}
    for order, rank in enumerate(sorted(ranks, key=lambda r: (r.stage, r.rank))):
        equal = f", stands for {rank.num_equal}" if rank.num_equal > 1 else ""
        yield Process(rank.rank, f"stage {rank.stage}, rank {rank.rank}{equal}", order)
        for stream in sorted({stream for of, stream in used if of == rank.rank}, key=_thread):
            yield Thread(rank.rank, _thread(stream), f"{stream} stream")


def _thread(stream: str) -> int:
    return STREAMS.index(stream) + 1 if stream in STREAMS else len(STREAMS) + 1


def _slice(span: Span) -> Slice:
    args: dict[str, object] = {"cause": span.cause, "on_critical_path": span.on_critical_path}
    if span.micro_batch >= 0:
        args["micro_batch"] = span.micro_batch
    thread = _thread(span.stream)
    return Slice(span.rank, thread, span.start_seconds, span.end_seconds, span.label, span.cause, args)


def _arrows(spans: Iterable[Span]) -> Iterator[Flow]:
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
    thread = _thread(COMPUTE)
    for span in sorted(computed, key=lambda s: (s.start_seconds, s.end_seconds)):
        before = last.get(span.micro_batch)
        last[span.micro_batch] = span
        if before is None or before.rank == span.rank or before.end_seconds > span.start_seconds:
            continue
        number += 1
        name, start = f"micro-batch {span.micro_batch}", before.start_seconds
        yield Flow("start", number, before.rank, thread, start, name, "micro-batch")
        yield Flow("end", number, span.rank, thread, span.start_seconds, name, "micro-batch")
