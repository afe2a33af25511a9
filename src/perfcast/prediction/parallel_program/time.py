"""Where the time of simulated ranks goes, the chain that decides it, and the timeline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from perfcast.core.forecast.plan import RankTime, Span, StepTime
from perfcast.core.graph import Phase
from perfcast.core.work import Call, Stream
from perfcast.prediction.parallel_program.simulation import RanksPlayed, Task
from perfcast.simulate.layer import CAUSE_OF_STREAM

#: Times closer than this part of the step are the same.
_SAME = 1e-9


def step_time_of(ranks: RanksPlayed, *, with_spans: bool = False) -> StepTime:
    """The step of simulated ranks.

    A moment in which a rank computes counts as that. One in which its compute stream is idle counts as what
    the next call there waits for: a collective that runs, or before that, for what keeps the collective from
    starting: the host, another collective, or another rank ('bubble' for a message, 'straggler' for a
    collective).
    """
    walker = _Walker(ranks)
    times = tuple(walker.rank_time(index) for index in range(len(ranks.places)))
    busiest = sorted(range(len(times)), key=lambda index: -_own_seconds(times[index]))
    path = walker.critical_path()
    return StepTime(
        step_seconds=ranks.played.makespan_seconds,
        ranks=tuple(times[index] for index in busiest),
        spans=tuple(walker.spans(frozenset(path))) if with_spans else (),
        critical_path=walker.path_by_label(path),
        num_events=ranks.program.num_tasks,
    )


def _own_seconds(time: RankTime) -> float:
    return sum(time.seconds_by_cause.get(cause, 0.0) for cause in ("compute", "recompute", "optimizer"))


class _Walker:
    """Follows a simulation backwards."""

    def __init__(self, ranks: RanksPlayed) -> None:
        self._ranks = ranks
        self._starts: list[float] = ranks.played.starts.tolist()
        self._ends: list[float] = ranks.played.ends.tolist()
        self._tolerance = _SAME * max(ranks.played.makespan_seconds, 0.0)
        self._awaited: dict[int, list[int]] = defaultdict(list)
        for waiting, awaited in zip(ranks.program.waiting, ranks.program.awaited, strict=True):
            self._awaited[waiting].append(awaited)
        last: dict[int, int] = {}
        for task, stream in enumerate(ranks.program.streams):
            if stream in last:
                self._awaited[task].append(last[stream])
            last[stream] = task
        self._partners = {task: meeting for meeting in ranks.meetings for task in meeting}
        self._of_place: list[list[int]] = [[] for _ in ranks.places]
        for number, one in enumerate(ranks.tasks):
            if one is not None:
                self._of_place[one.place].append(number)

    # ---- a rank -----------------------------------------------------------------------------

    def rank_time(self, index: int) -> RankTime:
        """Of one simulated rank; what it does not compute is told apart."""
        causes: dict[str, float] = defaultdict(float)
        clock, tail = 0.0, -1
        for number in self._of_place[index]:
            task = self._ranks.tasks[number]
            assert task is not None
            if self._ranks.call(task).stream is Stream.COMPUTE:
                self._explain(number, clock, self._starts[number], causes)
                causes[self._cause(task)] += self._ends[number] - self._starts[number]
                clock = self._ends[number]
            if tail < 0 or self._ends[number] > self._ends[tail]:
                tail = number
        if tail >= 0 and self._ends[tail] > clock:
            self._share(tail, clock, self._ends[tail], causes)
            clock = self._ends[tail]
        rest = self._ranks.played.makespan_seconds - clock
        if rest > self._tolerance:
            causes["bubble" if self._has_messages() else "straggler"] += rest
        place = self._ranks.places[index]
        return RankTime(place.rank, place.stage, place.num_equal, dict(causes))

    def _has_messages(self) -> bool:
        return any(e is not None and e.peer >= 0 for one in self._ranks.calls for e in one.collectives)

    def _explain(self, number: int, low: float, high: float, causes: dict[str, float]) -> None:
        """Idle seconds between ``low`` and the start of a task, ``high``, by what it waited for."""
        while high - low > self._tolerance:
            reason = self._local_reason(number)
            ready = low if reason is None else max(self._ends[reason], low)
            if high - ready > self._tolerance:
                causes[self._remote_cause(number)] += high - ready
                high = ready
            if reason is None or high - low <= self._tolerance:
                return
            number = reason
            high = self._take(number, low, high, causes)

    def _share(self, number: int, low: float, high: float, causes: dict[str, float]) -> None:
        """Idle seconds until the end of a task, ``high``."""
        high = self._take(number, low, high, causes)
        self._explain(number, low, high, causes)

    def _take(self, number: int, low: float, high: float, causes: dict[str, float]) -> float:
        """Count the part of an idle interval in which a task ran; what is left of it ends before."""
        start = max(self._starts[number], low)
        if high > start:
            task = self._ranks.tasks[number]
            causes["host" if task is None else self._cause(task)] += high - start
        return min(start, high)

    def _local_reason(self, number: int) -> int | None:
        """The task of the same rank that ended last of those that a task waited for."""
        awaited = self._awaited[number]
        return max(awaited, key=self._ends.__getitem__) if awaited else None

    def _remote_cause(self, number: int) -> str:
        task = self._ranks.tasks[number]
        if task is None:
            return "host"
        collective = self._ranks.calls[self._ranks.places[task.place].of_class].collectives[task.call]
        return "bubble" if collective is not None and collective.peer >= 0 else "straggler"

    def _cause(self, task: Task) -> str:
        one = self._ranks.calls[self._ranks.places[task.place].of_class]
        call = one.calls[task.call]
        if call.stream is not Stream.COMPUTE:
            return _cause_of(call)
        if call.is_recomputed:
            return "recompute"
        return "optimizer" if one.phases[task.call] is Phase.OPTIMIZER else "compute"

    # ---- the chain that decides -------------------------------------------------------------

    def critical_path(self) -> list[int]:
        """Tasks from the last to the first: each ended when the one before it in the list could start."""
        if not self._ends:
            return []
        path, number = [], int(np.argmax(self._ranks.played.ends))
        while True:
            path.append(number)
            together = self._partners.get(number, (number,))
            reasons = [other for one in together for other in self._awaited[one]]
            if not reasons:
                return path
            number = max(reasons, key=self._ends.__getitem__)

    def path_by_label(self, path: Sequence[int]) -> tuple[tuple[str, float], ...]:
        """Seconds of a chain by what runs, longest first; layers are not told apart."""
        seconds: dict[str, float] = defaultdict(float)
        for number in path:
            task = self._ranks.tasks[number]
            label = "host" if task is None else _general(self._ranks.call(task))
            seconds[label] += self._ends[number] - self._starts[number]
        return tuple(sorted(((k, v) for k, v in seconds.items() if v), key=lambda item: -item[1]))

    def spans(self, critical: frozenset[int]) -> Iterator[Span]:
        """The timeline."""
        for number, task in enumerate(self._ranks.tasks):
            if task is None or self._ends[number] <= self._starts[number]:
                continue
            call = self._ranks.call(task)
            yield Span(
                rank=self._ranks.places[task.place].rank,
                stream=call.stream.value,
                label=f"{call.module}: {call.operation.name}" if call.module else call.operation.name,
                start_seconds=self._starts[number],
                end_seconds=self._ends[number],
                cause=self._cause(task),
                on_critical_path=number in critical,
            )


def _cause_of(call: Call) -> str:
    """What a call beside the compute stream counts as: copies there serve the weights that they gather."""
    return "data" if call.stream is Stream.COPY else CAUSE_OF_STREAM[call.stream]


def _general(call: Call) -> str:
    module = re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", call.module)
    return f"{module}: {call.operation.name}" if module else call.operation.name
