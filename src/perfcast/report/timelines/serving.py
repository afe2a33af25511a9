"""The timeline of a window of serving: a process for each engine, and one for the requests.

An engine has its steps with their batches, and counts what it holds; steps of one batch that follow each
other are one slice, which says how many they are. A request is a row from its sending to its last token.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.serving.deployment import Aggregated
from perfcast.core.serving.outcome import Played, StepLog
from perfcast.errors import InputError
from perfcast.report.timeline_events import Counter, Process, Slice, Thread, TimelineEvent

#: The process of requests stands below the engines.
_REQUESTS = 10_000
#: Requests that are drawn; of more, the first.
_MOST_REQUESTS = 2_000
_STEPS, _WAITS, _READS, _WRITES = "steps", "waits", "is read", "is written"


def about(forecast: ServingForecast) -> dict[str, str]:
    """What a viewer shows of the whole."""
    return {
        "model": forecast.model,
        "cluster": forecast.cluster,
        "num_devices": str(forecast.num_devices),
        "cost_model": forecast.cost_model,
        "dtype": forecast.dtype,
    }


def events_of(forecast: ServingForecast) -> Iterator[TimelineEvent]:
    """The window whose steps were kept.

    Raises:
        InputError: None were.
    """
    played = forecast.played
    if played is None or played.steps is None:
        raise InputError("no timeline: it is of requests that are played; leave --method closed-form out")
    if not len(played.steps):
        raise InputError("no timeline: no step lies in the window; move it with --window")
    yield from _engines(played.steps, names_pools=not isinstance(forecast.deployment, Aggregated))
    yield from _steps(played.steps)
    yield from _requests(played, *_ends(played.steps))


def _ends(steps: StepLog) -> tuple[float, float]:
    return float(steps.start_seconds.min()), float(steps.end_seconds.max())


def _engines(steps: StepLog, *, names_pools: bool) -> Iterator[TimelineEvent]:
    engines = sorted(set(zip(steps.pool.tolist(), steps.engine.tolist(), strict=True)))
    for order, (pool, engine) in enumerate(engines):
        role = ("reads: " if pool == 0 else "writes: ") if names_pools else ""
        yield Process(engine, f"{role}engine {engine}", order)
        yield Thread(engine, 1, _STEPS)


def _steps(steps: StepLog) -> Iterator[TimelineEvent]:
    columns = (
        steps.start_seconds,
        steps.end_seconds,
        steps.engine,
        steps.steps,
        steps.sequences,
        steps.prompts,
        steps.prompt_tokens,
        steps.cached_tokens,
        steps.running,
        steps.waiting,
        steps.kv_tokens,
    )
    for start, end, engine, count, writing, prompts, read, cached, running, waiting, held in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        args = {
            "steps": count,
            "sequences_that_write": writing,
            "prompts": prompts,
            "prompt_tokens": read,
            "cached_tokens": cached,
        }
        name, category = _name(writing, prompts, read, count)
        yield Slice(engine, 1, start, end, name, category, args)
        yield Counter(engine, start, "requests", {"running": running, "waiting": waiting})
        yield Counter(engine, start, "tokens held", {"tokens": held})


def _name(writing: int, prompts: int, read: int, count: int) -> tuple[str, str]:
    """What a step is called, and its category: reads, writes, or both."""
    reads = f"reads {read:,} of {prompts:,} prompts" if prompts else ""
    writes = f"writes {writing:,}" if writing else ""
    times = f" × {count:,}" if count > 1 else ""
    category = "mixed" if reads and writes else "prefill" if reads else "decode"
    return (", ".join(part for part in (reads, writes) if part) or "step") + times, category


def _requests(played: Played, begin: float, end: float) -> Iterator[TimelineEvent]:
    """Requests that are there in the window, in as few rows as hold them."""
    there = (played.sent_seconds < end) & (played.finished_seconds > begin)
    numbers = there.nonzero()[0][:_MOST_REQUESTS].tolist()
    yield Process(_REQUESTS, "requests", _REQUESTS)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    num_rows = 0
    for number in sorted(numbers, key=lambda each: played.sent_seconds[each]):
        sent = float(played.sent_seconds[number])
        while busy and busy[0][0] <= sent:
            heappush(free, heappop(busy)[1])
        if free:
            row = heappop(free)
        else:
            num_rows += 1
            row = num_rows
            yield Thread(_REQUESTS, row, f"row {row}")
        heappush(busy, (float(played.finished_seconds[number]), row))
        yield from _parts(played, number, row)


def _parts(played: Played, number: int, row: int) -> Iterator[Slice]:
    """A request: it waits, is read, is written."""
    moments = (
        played.sent_seconds,
        played.started_seconds,
        played.first_token_seconds,
        played.finished_seconds,
    )
    times = [float(column[number]) for column in moments]
    args = {
        "prompt_tokens": int(played.prompt_tokens[number]),
        "answer_tokens": int(played.answer_tokens[number]),
        "preemptions": int(played.preemptions[number]),
        "replica": int(played.replica[number]),
    }
    for what, start, end in zip((_WAITS, _READS, _WRITES), times, times[1:], strict=False):
        if end > start:
            yield Slice(_REQUESTS, row, start, end, f"request {number} {what}", what, args)
