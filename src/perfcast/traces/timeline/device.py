"""What a rank's device did: works on streams, when each could start, and which waits held what up.

A recording says when a kernel ran and which call launched it, seldom what it waited for. What it does not
say is inferred and checked against the clock: a wait for something that ended later than the waiting went on
did not happen. With synchronisation events the file's own word counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perfcast.traces.events import NONE, Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.timeline.program import DeviceWork
from perfcast.units import MICRO

#: Of clocks in older recordings, which count whole microseconds.
TOLERANCE_SECONDS = 2 * MICRO
#: Works that a CUDA stream holds before a launch blocks: the most ever outstanding in recordings of hosts
#: that run ahead (ns_resolution_v100 of HolisticTraceAnalysis, MIT; there launches take 100 times as long).
#: HIP's hosts run further ahead (1,848 in TraceLens's mi300_resnet_act_checkpoint).
CUDA_QUEUE_LENGTH = 1022
#: From a launch to an idle device's start, and between queued kernels, where a recording has no example.
DEFAULT_DELAY_SECONDS, DEFAULT_GAP_SECONDS = 5 * MICRO, 1 * MICRO
#: Longest pause between queued works that is taken for the device's own; more is an unseen wait.
MAX_GAP_SECONDS = 50 * MICRO


@dataclass(frozen=True)
class Launched:
    """Device rows of a window with the calls that launched them, in the order of their streams.

    ``work`` is an index into ``rows``. Times are the trace's; a call before the window counts as at its
    start.
    """

    rows: Sequence[int]
    calls: Sequence[int]
    operators: Sequence[int]
    streams: Sequence[int]
    stream_names: tuple[str, ...]
    starts: Sequence[float]
    ends: Sequence[float]
    issued: Sequence[float]
    issue_order: dict[int, list[int]] = field(default_factory=dict)
    issue_times: dict[int, list[float]] = field(default_factory=dict)

    @cached_property
    def works_of_call(self) -> Mapping[int, tuple[int, ...]]:
        """The works that each call launched."""
        found: dict[int, tuple[int, ...]] = {}
        for work, call in enumerate(self.calls):
            found[call] = (*found.get(call, ()), work)
        return found

    def last_before(self, stream: int, moment: float) -> int:
        """The last work that was issued to a stream before a moment, or -1."""
        place = bisect_left(self.issue_times.get(stream, []), moment)
        return self.issue_order[stream][place - 1] if place else NONE

    def last_ended(self, stream: int, moment: float, until: float) -> int:
        """The last work issued to a stream before a moment that had ended until another moment; or -1."""
        place = bisect_left(self.issue_times.get(stream, []), moment) - 1
        while place >= 0:
            work = self.issue_order[stream][place]
            if self.ends[work] <= until:
                return work
            place -= 1
        return NONE

    def first_after(self, stream: int, moment: float) -> int:
        """The first work that was issued to a stream at or after a moment, or -1."""
        place = bisect_left(self.issue_times.get(stream, []), moment)
        return self.issue_order[stream][place] if place < len(self.issue_order.get(stream, [])) else NONE


def find_launched(trace: Trace, links: KernelLinks, start: float, end: float) -> Launched:
    """Works issued within a window, or issued before it and not ended when it starts."""
    events = trace.events
    columns: list[tuple[int, float]] = []
    for row, call in links.call_of.items():
        issued = float(events.start_seconds[call]) if call != NONE else float(events.start_seconds[row])
        if start <= issued <= end or (issued < start < events.end_seconds[row]):
            columns.append((row, max(issued, start)))
    streams: dict[tuple[int, int], int] = {}
    for row, _ in columns:
        streams.setdefault((int(events.devices[row]), int(events.streams[row])), len(streams))
    columns.sort(key=lambda c: (streams[int(events.devices[c[0]]), int(events.streams[c[0]])], c[0]))
    rows = [row for row, _ in columns]
    launched = Launched(
        rows,
        [links.call_of[row] for row in rows],
        [links.operator_of[row] for row in rows],
        [streams[int(events.devices[row]), int(events.streams[row])] for row in rows],
        tuple(f"device {d} stream {s}" for d, s in streams),
        events.start_seconds[rows].tolist(),
        events.end_seconds[rows].tolist(),
        [issued for _, issued in columns],
    )
    for work in sorted(range(len(rows)), key=lambda w: (launched.issued[w], w)):
        launched.issue_order.setdefault(launched.streams[work], []).append(work)
        launched.issue_times.setdefault(launched.streams[work], []).append(launched.issued[work])
    return launched


def build_works(
    trace: Trace, launched: Launched, awaits: Sequence[Sequence[int]], window_start: float
) -> tuple[DeviceWork, ...]:
    """Works with what held each up: its launch, or what it stood behind.

    ``awaits`` is, for each work, what it waits for on other streams.
    """
    bases = _bases(launched, awaits)
    delay, gap = _usual_delays(launched, bases)
    works = []
    for work, row in enumerate(launched.rows):
        start, issued, base = launched.starts[work], launched.issued[work], bases[work]
        if base + gap >= issued + delay:
            own_gap, own_delay = max(0.0, start - base), min(delay, max(0.0, start - issued))
        else:
            own_gap, own_delay = min(gap, max(0.0, start - base)), max(0.0, start - issued)
        if own_gap > MAX_GAP_SECONDS:
            own_gap, own_delay = gap, max(0.0, start - issued)
        pause = start - max(issued + delay, base + gap)
        seconds = launched.ends[work] - max(start, window_start)
        works.append(
            DeviceWork(
                row,
                trace.events.name(row),
                launched.streams[work],
                seconds,
                own_delay,
                own_gap,
                tuple(awaits[work]),
                "",
                launched.operators[work],
                unexplained_seconds=pause if pause > MAX_GAP_SECONDS else 0.0,
            )
        )
    return tuple(works)


def _bases(launched: Launched, awaits: Sequence[Sequence[int]]) -> list[float]:
    """When all that each work stands behind had ended; -inf where it stands behind nothing."""
    bases = []
    for work in range(len(launched.rows)):
        base = float("-inf")
        if work and launched.streams[work - 1] == launched.streams[work]:
            base = launched.ends[work - 1]
        bases.append(max([base, *(launched.ends[other] for other in awaits[work])]))
    return bases


def _usual_delays(launched: Launched, bases: Sequence[float]) -> tuple[float, float]:
    """Medians: from launch to start on an idle device; from one work's end to the next one's start."""
    columns = list(zip(launched.starts, launched.issued, bases, strict=True))
    delays = [start - issued for start, issued, base in columns if base <= issued]
    delay = float(np.median(delays)) if delays else DEFAULT_DELAY_SECONDS
    gaps = [s - base for s, i, base in columns if base >= i + delay and 0 <= s - base <= MAX_GAP_SECONDS]
    return max(delay, 0.0), float(np.median(gaps)) if gaps else DEFAULT_GAP_SECONDS
