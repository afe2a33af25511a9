"""From a recording to a program that can run again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfcast.errors import TraceError
from perfcast.traces.events import NONE, Category, Step, Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.timeline.calls import WAITS, call_kind, is_operator
from perfcast.traces.timeline.device import CUDA_QUEUE_LENGTH, Launched, build_works
from perfcast.traces.timeline.gloo import Moment, find_gloo
from perfcast.traces.timeline.host import Chain, Unit
from perfcast.traces.timeline.program import DeviceWork, HostPiece, Overhead, RankProgram, StepSpan
from perfcast.traces.timeline.structure import Structure, find_structure
from perfcast.traces.timeline.waits import Waits
from perfcast.units import MICRO

#: A thread beside the first that was idle for longer waited for it.
IDLE_SECONDS = 100 * MICRO
#: Stands in keys of pieces for the beginning or end of a step.
_STEP = "step"
#: Of a step, in a mark's name; equal ranges of different steps have one name.
_NUMBER = re.compile(r"#\d+")


def build_program(
    trace: Trace,
    links: KernelLinks,
    steps: Sequence[Step] | None = None,
    structure: Structure | None = None,
) -> RankProgram:
    """One rank's marked steps (all of them, or some that follow each other) as a program.

    A trace without marked steps is one step from its first operator to its last.

    Args:
        structure: Of the window from the first step's start to the last one's end, where it is known.

    Raises:
        TraceError: Nothing ran on the host.
    """
    marked = tuple(trace.steps if steps is None else steps) or (_whole(trace),)
    start, end = marked[0].start_seconds, marked[-1].end_seconds
    structure = structure or find_structure(trace, links, start, end)
    chains, launched, waits = structure.chains, structure.launched, structure.waits
    if not chains:
        raise TraceError(f"{trace.source}: no operator runs on the host between {start:g} s and {end:g} s")
    moments: tuple[Moment, ...] = ()
    if not launched.rows:
        launched, moments = find_gloo(trace, chains, start, end)
        waits = Waits(((),) * len(launched.rows), {})
    works = build_works(trace, launched, waits.of_works, start)
    builder = _Builder(trace, launched, waits, marked, _ranges(trace), list(moments))
    for index, chain in enumerate(chains):
        builder.add_chain(index, chain)
    pieces, spans = builder.finish()
    return RankProgram(
        trace.rank,
        0.0,
        pieces,
        _with_steps(works, launched, marked),
        tuple(c.name for c in chains),
        launched.stream_names,
        spans,
        CUDA_QUEUE_LENGTH if trace.platform == "cuda" else 0,
    )


def _whole(trace: Trace) -> Step:
    events = trace.events
    rows = events.rows_in(Category.OPERATOR, Category.RUNTIME, Category.DRIVER)
    if not len(rows):
        raise TraceError(f"{trace.source}: nothing runs on the host")
    return Step(0, NONE, float(events.start_seconds[rows].min()), float(events.end_seconds[rows].max()))


def _with_steps(
    works: Sequence[DeviceWork], launched: Launched, steps: Sequence[Step]
) -> tuple[DeviceWork, ...]:
    starts = [step.start_seconds for step in steps]
    places = [max(bisect_right(starts, issued) - 1, 0) for issued in launched.issued]
    if not any(places):
        return tuple(works)
    return tuple(replace(work, step=step) for work, step in zip(works, places, strict=True))


@dataclass
class _Builder:
    """Writes pieces chain by chain."""

    trace: Trace
    launched: Launched
    waits: Waits
    steps: Sequence[Step]
    ranges: Mapping[int, tuple[list[float], list[str]]]
    moments: list[Moment]
    pieces: list[HostPiece] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    kinds: dict[tuple[int, int, Overhead, tuple[str, ...], str], int] = field(default_factory=dict)
    cursor: float = 0.0
    step: int = 0
    where: str = ""
    row: int = NONE
    ends: list[float] = field(default_factory=list)
    works: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        launching = {work for moment in self.moments for work in moment.launches}
        for work, call in enumerate(self.launched.calls):
            if work in launching:
                continue
            self.works.setdefault(call, []).append(work)

    def add_chain(self, index: int, chain: Chain) -> None:
        """Pieces of a chain, cut at the marks of steps where it is the first."""
        self.cursor = self.steps[0].start_seconds
        before, step = _STEP, 0
        if index == 0:
            self._add_running_works()
        for unit in chain.units:
            while step + 1 < len(self.steps) and unit.start >= self.steps[step + 1].start_seconds:
                if index == 0:
                    before = self._pass_mark(step, before)
                step += 1
            self.step, self.where = step, self._where(unit)
            self._add_gap(index, before, unit)
            self.row = unit.row
            self._add_unit(index, unit)
            self.row = NONE
            before = unit.name
        if index == 0:
            while step < len(self.steps):
                before = self._pass_mark(step, before)
                step += 1

    def finish(self) -> tuple[tuple[HostPiece, ...], tuple[StepSpan, ...]]:
        """All pieces, and where steps begin and end."""
        spans = tuple(
            StepSpan(step.number, first, last, step.end_seconds - step.start_seconds)
            for step, (first, last) in zip(self.steps, self.marks, strict=True)
        )
        return tuple(self.pieces), spans

    def _add_running_works(self) -> None:
        """What was issued before the window and had not ended."""
        start = self.steps[0].start_seconds
        running = [w for w, issued in enumerate(self.launched.issued) if issued <= start]
        self._emit(0, Overhead.BETWEEN, (_STEP, _STEP), start, launches=tuple(running))
        for work in running:
            self.works.get(self.launched.calls[work], []).clear()

    def _pass_mark(self, step: int, before: str) -> str:
        """Host time up to a step's end, and from there to the next step's start."""
        first = self.marks[-1][1] + 2 if self.marks else 0
        self.step, self.where = step, ""
        self._emit(0, Overhead.BETWEEN, (before, _STEP), self.steps[step].end_seconds)
        self.marks.append((first, len(self.pieces) - 1))
        if step + 1 < len(self.steps):
            between = self.steps[step + 1].start_seconds
            self._emit(0, Overhead.BETWEEN, (_STEP, _STEP), between)
        return _STEP

    def _add_gap(self, chain: int, before: str, unit: Unit) -> None:
        key = (before, unit.name)
        idle = unit.start - self.cursor
        if chain and (idle > IDLE_SECONDS or before == _STEP):
            place = bisect_right(self.ends, unit.start) - 1
            if place >= 0:
                self.cursor = max(self.cursor, self.ends[place])
                self._emit(chain, Overhead.BETWEEN, key, unit.start, after=place)
                return
        self._emit(chain, Overhead.BETWEEN, key, unit.start)

    def _add_unit(self, chain: int, unit: Unit) -> None:
        events = self.trace.events
        before = Overhead.BEFORE
        calls = [call for call in unit.calls if self._is_piece(call)]
        for call in calls:
            name, end = events.name(call), float(events.end_seconds[call])
            self._emit(chain, before, (unit.name,), float(events.start_seconds[call]))
            before = Overhead.INSIDE
            launches, awaits = tuple(self.works.get(call, ())), self.waits.of_calls.get(call, ())
            if launches and awaits:
                self._emit(chain, Overhead.CALL, (name,), self.cursor, launches=launches)
                launches = ()
            if awaits:
                self.cursor = max(self.cursor, min(max(self.launched.ends[w] for w in awaits), end))
            self._emit(chain, Overhead.CALL, (name,), end, launches=launches, awaits=awaits)
        kind = Overhead.AFTER if calls else Overhead.INSIDE
        self._emit(chain, kind, (unit.name,), unit.end)

    def _is_piece(self, call: int) -> bool:
        """Whether a call issues or awaits something that the program has."""
        return call in self.works or call_kind(self.trace.events.name(call)) in WAITS

    def _emit(
        self,
        chain: int,
        overhead: Overhead,
        key: tuple[str, ...],
        until: float,
        *,
        launches: tuple[int, ...] = (),
        awaits: tuple[int, ...] = (),
        after: int = NONE,
    ) -> None:
        """The host's time up to a moment, in parts where it launches or awaits collectives meanwhile."""
        while chain == 0 and self.moments and self.moments[0].start < until:
            moment = self.moments.pop(0)
            self._emit_part(chain, overhead, key, moment.start, launches, awaits, after)
            launches, awaits, after = moment.launches, moment.awaits, NONE
            self.cursor = max(self.cursor, min(moment.end, until))
        self._emit_part(chain, overhead, key, until, launches, awaits, after)

    def _emit_part(
        self,
        chain: int,
        overhead: Overhead,
        key: tuple[str, ...],
        until: float,
        launches: tuple[int, ...],
        awaits: tuple[int, ...],
        after: int,
    ) -> None:
        begin, end = self.cursor, max(self.cursor, until)
        seconds = max(0.0, until - self.cursor)
        self.cursor = max(self.cursor, until)
        place = (chain, self.step)
        position = self.counts.get(place, 0)
        self.counts[place] = position + 1
        kind = (chain, self.step, overhead, key, self.where)
        occurrence = self.kinds.get(kind, 0)
        self.kinds[kind] = occurrence + 1
        self.pieces.append(
            HostPiece(
                chain,
                overhead,
                key,
                seconds,
                launches,
                awaits,
                after,
                self.step,
                position,
                occurrence,
                self.where,
                self.row,
                (begin, end),
            )
        )
        if chain == 0:
            self.ends.append(self.cursor)

    def _where(self, unit: Unit) -> str:
        thread = int(self.trace.events.threads[unit.row])
        starts, names = self.ranges.get(thread, ([], []))
        place = bisect_right(starts, unit.start) - 1
        return names[place] if place >= 0 else ""


def _ranges(trace: Trace) -> dict[int, tuple[list[float], list[str]]]:
    """Innermost marked range by time, for each thread: moments of change and the name from there on."""
    events = trace.events
    found: dict[int, tuple[list[float], list[str]]] = {}
    opened: dict[int, list[tuple[float, str]]] = {}
    is_mark = np.array([not is_operator(name) for name in events.names], dtype=np.bool_)
    marks = events.is_in(Category.ANNOTATION)
    marks |= events.is_in(Category.OPERATOR) & is_mark[events.name_codes]
    for row in np.flatnonzero(marks).tolist():
        name = _NUMBER.sub("#", events.name(row))
        start, end = float(events.start_seconds[row]), float(events.end_seconds[row])
        thread = int(events.threads[row])
        moments, names = found.setdefault(thread, ([], []))
        stack = opened.setdefault(thread, [])
        _close(stack, start, moments, names)
        stack.append((end, name))
        moments.append(start)
        names.append(name)
    for thread, stack in opened.items():
        _close(stack, float("inf"), *found[thread])
    return found


def _close(stack: list[tuple[float, str]], until: float, moments: list[float], names: list[str]) -> None:
    """Leave the ranges that end before a moment."""
    while stack and stack[-1][0] <= until:
        end, _ = stack.pop()
        moments.append(max(end, moments[-1]))
        names.append(stack[-1][1] if stack else "")
