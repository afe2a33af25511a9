"""What streams and the host waited for, as the file says or as the clock allows.

Synchronisation events name streams and recorded events; they are believed. Without them:

* a call that lets a stream wait belongs to the next launch; where that launch is a collective in another
  operator, to the next launch that is none (a program waits for collectives before it computes, and a
  collective waits for what computes);
* the stream then waits for the last work on each other stream that had ended when it went on;
* the host waits for the streams that a call names or can mean, as far as they had ended when it returned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfcast.traces.events import NONE, Category, Synchronization, Trace
from perfcast.traces.timeline.calls import WAITS, CallKind, call_kind
from perfcast.traces.timeline.device import CUDA_QUEUE_LENGTH, TOLERANCE_SECONDS, Launched


@dataclass(frozen=True)
class Waits:
    """What waits for what: works of each work, and works of each waiting call by the call's row."""

    of_works: tuple[tuple[int, ...], ...]
    of_calls: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class _Setting:
    """What the rules look at.

    Attributes:
        calls: Rows of launches, waits and orders, by start.
        units: The unit that each of them stands in.
        places: Of each call in ``calls``.
        said: Synchronisation events by the row of their call.
        numbers: Streams by their number in the file.
        collectives: Works that are collectives.
    """

    trace: Trace
    launched: Launched
    calls: Sequence[int]
    kinds: Mapping[int, CallKind]
    units: Mapping[int, int]
    places: Mapping[int, int]
    numbers: Mapping[int, int]
    said: Mapping[int, Synchronization]
    collectives: frozenset[int]

    @property
    def works(self) -> Mapping[int, tuple[int, ...]]:
        """Works of each launching call."""
        return self.launched.works_of_call

    def start(self, row: int) -> float:
        return float(self.trace.events.start_seconds[row])

    def end(self, row: int) -> float:
        return float(self.trace.events.end_seconds[row])


def find_waits(
    trace: Trace,
    launched: Launched,
    calls: Iterable[int],
    units: Mapping[int, int],
    collectives: Iterable[int],
) -> Waits:
    """What waits for what in a window.

    Args:
        calls: Rows of the calls that launch, wait or order.
        units: The unit that each of them stands in.
        collectives: Works that are collectives between ranks.
    """
    setting = _setting(trace, launched, calls, units, collectives)
    of_works: list[list[int]] = [[] for _ in launched.rows]
    if setting.said:
        _order_as_said(setting, of_works)
    else:
        _order_by_inference(setting, of_works)
    of_calls = {}
    for row in setting.calls:
        if setting.kinds[row] in WAITS:
            of_calls[row] = _awaited_by_host(setting, row)
        elif row in setting.works and _blocks(setting, row):
            of_calls[row] = setting.works[row]
    if trace.platform == "cuda":
        _await_queue(setting, of_calls)
    return Waits(tuple(tuple(sorted(set(w))) for w in of_works), of_calls)


def _await_queue(setting: _Setting, of_calls: dict[int, tuple[int, ...]]) -> None:
    """A launch to a full queue stays in its call until there is room."""
    launched = setting.launched
    for order in launched.issue_order.values():
        for place in range(CUDA_QUEUE_LENGTH, len(order)):
            call = launched.calls[order[place]]
            of_calls[call] = (*of_calls.get(call, ()), order[place - CUDA_QUEUE_LENGTH])


def _setting(
    trace: Trace,
    launched: Launched,
    calls: Iterable[int],
    units: Mapping[int, int],
    collectives: Iterable[int],
) -> _Setting:
    events = trace.events
    kinds = {row: call_kind(events.name(row)) for row in calls}
    by_correlation = {int(events.correlations[row]): row for row in kinds}
    said = {}
    for synchronization in trace.synchronizations:
        row = by_correlation.get(int(events.correlations[synchronization.row]), NONE)
        if row != NONE:
            said[row] = synchronization
    ordered = sorted(kinds, key=lambda row: (float(events.start_seconds[row]), row))
    places = {row: place for place, row in enumerate(ordered)}
    numbers = {
        int(events.streams[row]): stream for row, stream in zip(launched.rows, launched.streams, strict=True)
    }
    return _Setting(trace, launched, ordered, kinds, units, places, numbers, said, frozenset(collectives))


def _order_as_said(setting: _Setting, of_works: list[list[int]]) -> None:
    """Streams wait for the work before the recorded event."""
    launched, events = setting.launched, setting.trace.events
    records = {
        int(events.correlations[row]): row
        for row in events.rows_in(Category.RUNTIME, Category.DRIVER).tolist()
        if call_kind(events.name(row)) is CallKind.RECORD
    }
    for row, synchronization in setting.said.items():
        record = records.get(synchronization.wait_correlation, NONE)
        if setting.kinds[row] is not CallKind.ORDER or record == NONE:
            continue
        waiting = launched.first_after(setting.numbers.get(synchronization.stream, NONE), setting.start(row))
        source = setting.numbers.get(synchronization.waits_for_stream, NONE)
        awaited = launched.last_before(source, setting.start(record))
        if NONE not in (waiting, awaited) and launched.streams[waiting] != launched.streams[awaited]:
            of_works[waiting].append(awaited)


def _order_by_inference(setting: _Setting, of_works: list[list[int]]) -> None:
    launched = setting.launched
    launches = [row for row in setting.calls if row in setting.works]
    times = [setting.start(row) for row in launches]
    for row in setting.calls:
        if setting.kinds[row] is CallKind.ORDER:
            place = bisect_right(times, setting.start(row))
            for launch in _launches_meant(setting, row, launches[place : place + 64]):
                for work in setting.works[launch]:
                    _await_other_streams(launched, work, setting.start(row), of_works)
    for work in setting.collectives:
        _await_other_streams(launched, work, launched.issued[work], of_works)


def _launches_meant(setting: _Setting, order: int, following: Sequence[int]) -> Sequence[int]:
    """The launch whose stream an ordering call lets wait."""
    for launch in following:
        is_communication = any(work in setting.collectives for work in setting.works[launch])
        if not is_communication or setting.units[launch] == setting.units[order]:
            return (launch,)
    return ()


def _await_other_streams(launched: Launched, work: int, moment: float, of_works: list[list[int]]) -> None:
    for stream in launched.issue_order:
        if stream != launched.streams[work]:
            until = launched.starts[work] + TOLERANCE_SECONDS
            awaited = launched.last_ended(stream, moment, until)
            if awaited != NONE:
                of_works[work].append(awaited)


def _awaited_by_host(setting: _Setting, row: int) -> tuple[int, ...]:
    """What a waiting call waited for: on every stream that it can mean, the last that had ended."""
    launched, start = setting.launched, setting.start(row)
    until = setting.end(row) + TOLERANCE_SECONDS
    said = setting.said.get(row)
    streams: Iterable[int] = launched.issue_order
    if said is not None and setting.kinds[row] is not CallKind.WAIT_DEVICE:
        named = said.waits_for_stream if setting.kinds[row] is CallKind.WAIT_EVENT else said.stream
        streams = (setting.numbers.get(named, NONE),)
    elif setting.kinds[row] is CallKind.WAIT_STREAM:
        streams = _stream_of_unit(setting, row) or launched.issue_order
    found = tuple(launched.last_ended(stream, start, until) for stream in streams)
    return tuple(work for work in found if work != NONE)


def _stream_of_unit(setting: _Setting, row: int) -> tuple[int, ...]:
    """The stream of the last launch before a call in its unit; a copy to the host waits for its own."""
    for place in range(setting.places[row] - 1, -1, -1):
        call = setting.calls[place]
        if setting.units[call] != setting.units[row]:
            break
        if call in setting.works:
            return (setting.launched.streams[setting.works[call][-1]],)
    return ()


def _blocks(setting: _Setting, row: int) -> bool:
    """Whether a copy's call returned only when the copy had ended."""
    events, launched = setting.trace.events, setting.launched
    copies = [w for w in setting.works[row] if events.category(launched.rows[w]) is Category.MEMCPY]
    return bool(copies) and all(launched.ends[w] <= setting.end(row) for w in copies)
