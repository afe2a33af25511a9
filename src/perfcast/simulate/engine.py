"""The event engine: when each task of a program starts and ends.

Events are ends of tasks, handled in the total order (time, priority, sequence), so that a run is a pure
function of its program. The members of a collective are one unit of work that waits for what any of them
waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import PlanError
from perfcast.simulate.program import Program
from perfcast.simulate.sharing import Sharing


@dataclass(frozen=True)
class Played:
    """When each task of a program started and ended, in seconds from the program's start.

    Attributes:
        starts, ends: [tasks].
    """

    starts: Floats
    ends: Floats

    @property
    def makespan_seconds(self) -> float:
        """Until the last task has ended."""
        return float(self.ends.max(initial=0.0))


@dataclass(frozen=True)
class _Units:
    """What runs: a task, or all members of a collective. Numbered by (priority, first task).

    Attributes:
        of_task: [tasks], the unit of each.
        seconds: Of each unit.
        successors, bounds: Units that wait for unit i, once for every reason, stand at
            ``successors[bounds[i] : bounds[i + 1]]``.
        num_awaited: Reasons for which each waits.
    """

    of_task: Integers
    seconds: list[float]
    successors: list[int]
    bounds: list[int]
    num_awaited: list[int]


def play(program: Program) -> Played:
    """Run a program.

    Raises:
        PlanError: Tasks that wait for each other; a collective without all its members, or on a pool.
    """
    of_task = _number_units(program)
    units = _join(program, of_task)
    sharing, pools = Sharing.of(program, of_task), _Pools.of(program, of_task)
    starts, ends = [0.0] * len(units.seconds), [-1.0] * len(units.seconds)
    if _run(units, starts, ends, sharing, pools) < len(ends):
        raise PlanError(_deadlock(program, units, ends))
    return Played(np.array(starts)[of_task], np.array(ends)[of_task])


def _run(
    units: _Units, starts: list[float], ends: list[float], sharing: Sharing | None, pools: _Pools | None
) -> int:
    """Fill ``starts`` and ``ends``; returns how many units ended."""
    seconds, successors, bounds, left = units.seconds, units.successors, units.bounds, units.num_awaited
    heap: list[tuple[float, int]] = []
    begin = [unit for unit, count in enumerate(left) if not count]
    now, num_ended, ended = 0.0, 0, -1
    while True:
        if pools is not None:
            begin = pools.choose(begin, ended, bool(heap) and heap[0][0] <= now)
        for unit in begin:
            starts[unit] = now
            if sharing is None:
                heappush(heap, (now + seconds[unit], unit))
        if sharing is not None:
            sharing.change(begin, ended, now, heap)
        if not heap:
            return num_ended
        now, ended = heappop(heap)
        begin = []
        if sharing is not None and sharing.ends[ended] != now:
            ended = -1
            continue
        ends[ended] = now
        num_ended += 1
        for unit in successors[bounds[ended] : bounds[ended + 1]]:
            left[unit] -= 1
            if not left[unit]:
                begin.append(unit)


class _Pools:
    """Streams that take whichever of their tasks is ready and has the lowest number.

    They choose when the events of a moment are handled, so that what is ready at one moment is compared.
    """

    def __init__(self, of_unit: dict[int, int]) -> None:
        self._of_unit = of_unit
        self._ready: dict[int, list[int]] = {pool: [] for pool in sorted(set(of_unit.values()))}
        self._is_busy = dict.fromkeys(self._ready, False)

    @classmethod
    def of(cls, program: Program, of_task: Integers) -> _Pools | None:
        """Pools of a program; None where it has none."""
        if not any(lane.is_pool for lane in program.lanes):
            return None
        on_pool = [lane.is_pool for lane in program.lanes]
        return cls({int(of_task[t]): s for t, s in enumerate(program.streams) if on_pool[s]})

    def choose(self, ready: list[int], ended: int, is_more_now: bool) -> list[int]:
        """What starts now: what is ready and not of a pool, and what idle pools take.

        Args:
            ready: Units that wait for nothing any more.
            ended: The unit that has just ended, or -1.
            is_more_now: Whether other events of this moment are still to come.
        """
        if ended in self._of_unit:
            self._is_busy[self._of_unit[ended]] = False
        begin = []
        for unit in ready:
            if unit in self._of_unit:
                heappush(self._ready[self._of_unit[unit]], unit)
            else:
                begin.append(unit)
        for pool, waiting in () if is_more_now else self._ready.items():
            if waiting and not self._is_busy[pool]:
                self._is_busy[pool] = True
                begin.append(heappop(waiting))
        return begin


def _number_units(program: Program) -> Integers:
    """[tasks]: the unit of each, in the order of (priority, first task)."""
    tasks = np.arange(program.num_tasks)
    if not len(program.collective_sizes) and not len(program.priorities):
        return tasks
    first = tasks
    if len(program.collective_sizes):
        collectives = np.asarray(program.collectives, dtype=np.int64)
        _check_collectives(program, collectives)
        members = np.flatnonzero(collectives >= 0)
        head = np.full(len(program.collective_sizes), program.num_tasks, dtype=np.int64)
        np.minimum.at(head, collectives[members], members)
        first = tasks.copy()
        first[members] = head[collectives[members]]
    priorities = np.asarray(program.priorities or np.zeros(program.num_tasks), dtype=np.int64)
    lowest = priorities.copy()
    np.minimum.at(lowest, first, priorities)
    heads = np.flatnonzero(first == tasks)
    number = np.empty(program.num_tasks, dtype=np.int64)
    number[heads[np.argsort(lowest[heads], kind="stable")]] = np.arange(len(heads))
    return np.asarray(number[first])


def _check_collectives(program: Program, collectives: Integers) -> None:
    sizes = np.asarray(program.collective_sizes, dtype=np.int64)
    found = np.bincount(collectives[collectives >= 0], minlength=len(sizes))
    for collective in np.flatnonzero(found != sizes)[:1].tolist():
        members = [program.describe(t) for t in np.flatnonzero(collectives == collective)[:8].tolist()]
        raise PlanError(
            f"a collective of {sizes[collective]} members has {found[collective]}: "
            f"{', '.join(members) or 'none'}"
        )
    on_pool = np.array([lane.is_pool for lane in program.lanes])[np.asarray(program.streams, dtype=np.int64)]
    for task in np.flatnonzero(on_pool & (collectives >= 0))[:1].tolist():
        raise PlanError(f"{program.describe(task)} is of a collective, which cannot run on a pool")


def _join(program: Program, of_task: Integers) -> _Units:
    """Durations and successors of units."""
    num_units = int(of_task.max(initial=-1)) + 1
    seconds = np.zeros(num_units)
    np.maximum.at(seconds, of_task, np.asarray(program.seconds, dtype=np.float64))
    waiting, awaited = _edges(program, of_task)
    order = np.argsort(awaited, kind="stable")
    bounds = np.searchsorted(awaited[order], np.arange(num_units + 1))
    return _Units(
        of_task,
        seconds.tolist(),
        waiting[order].tolist(),
        bounds.tolist(),
        np.bincount(waiting, minlength=num_units).tolist(),
    )


def _edges(program: Program, of_task: Integers) -> tuple[Integers, Integers]:
    """Pairs of units, the first waiting for the second: by dependencies, and by the order of streams."""
    streams = np.asarray(program.streams, dtype=np.int64)
    order = np.argsort(streams, kind="stable")
    in_order = ~np.array([lane.is_pool for lane in program.lanes], dtype=np.bool_)
    follows = (streams[order][1:] == streams[order][:-1]) & in_order[streams[order][1:]]
    waiting = np.concatenate([np.asarray(program.waiting, dtype=np.int64), order[1:][follows]])
    awaited = np.concatenate([np.asarray(program.awaited, dtype=np.int64), order[:-1][follows]])
    return of_task[waiting], of_task[awaited]


def _deadlock(program: Program, units: _Units, ends: list[float]) -> str:
    """Tasks that wait for each other in a circle, by name."""
    awaited: dict[int, int] = {}
    for unit, (low, high) in enumerate(pairwise(units.bounds)):
        if ends[unit] < 0:
            awaited.update((s, unit) for s in units.successors[low:high])
    at = next(iter(awaited))
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        at = awaited[at]
    circle = seen[seen.index(at) :]
    task = {int(unit): t for t, unit in reversed(list(enumerate(units.of_task)))}
    names = [program.describe(task[unit]) for unit in (*circle, circle[0])]
    shown = names if len(names) <= 12 else [*names[:11], "…", names[-1]]
    return "tasks wait for each other: " + " waits for ".join(shown)
