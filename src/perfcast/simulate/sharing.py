"""Compute and exchanges on one device slow each other down while both run.

An exchange's kernels occupy multiprocessors and move their bytes through the memory that the kernels beside
them use. A unit of work with slowdown k advances at the rate 1/k while its device runs both sides, else at
1; ends are moved at the moments where that changes, so they are exact for rates that are constant in
between.
"""

from __future__ import annotations

from heapq import heappush

import numpy as np
import numpy.typing as npt

from perfcast.simulate.program import Program


class Sharing:
    """Work that is left of running units, and when they will end.

    Attributes:
        ends: Of each unit that runs, when it ends as things stand; an event of another time is out of date.
    """

    def __init__(self, seconds: list[float], slowdowns: list[float], places: list[list[int]]) -> None:
        """``places``: of each unit, twice the number of every device of it, plus 1 if it exchanges."""
        self.ends = [-1.0] * len(seconds)
        self._left = seconds
        self._slowdowns = slowdowns
        self._places = places
        self._since = [0.0] * len(seconds)
        self._is_slowed = [False] * len(seconds)
        num_places = 1 + (max((place for unit in places for place in unit), default=0) | 1)
        self._running: list[dict[int, None]] = [{} for _ in range(num_places)]

    @classmethod
    def of(cls, program: Program, of_task: npt.NDArray[np.int64]) -> Sharing | None:
        """Of a program; None where nothing can slow down."""
        if not any(slowdown > 1 for slowdown in program.slowdowns):
            return None
        num_units = int(of_task.max(initial=-1)) + 1
        seconds, slowdowns = np.zeros(num_units), np.ones(num_units)
        np.maximum.at(seconds, of_task, np.asarray(program.seconds, dtype=np.float64))
        np.maximum.at(slowdowns, of_task, np.asarray(program.slowdowns, dtype=np.float64))
        sides: list[dict[int, bool]] = [{} for _ in range(num_units)]
        for unit, stream in zip(of_task.tolist(), program.streams, strict=True):
            lane = program.lanes[stream]
            if lane.device >= 0:
                sides[unit][lane.device] = lane.communicates or sides[unit].get(lane.device, False)
        places = [[2 * device + side for device, side in unit.items()] for unit in sides]
        return cls(seconds.tolist(), slowdowns.tolist(), places)

    def change(self, begun: list[int], ended: int, now: float, heap: list[tuple[float, int]]) -> None:
        """Units begin, one ends (-1: none): put the ends that are new or that move on the heap.

        What begins is counted before what ends, so that a kernel that follows another does not interrupt the
        exchange beside them.
        """
        running = self._running
        for unit in begun:
            is_slowed = False
            for place in self._places[unit]:
                if running[place ^ 1]:
                    is_slowed = True
                    if not running[place]:
                        self._move(running[place ^ 1], True, now, heap)
                running[place][unit] = None
            self._since[unit], self._is_slowed[unit] = now, is_slowed
            self.ends[unit] = now + self._left[unit] * (self._slowdowns[unit] if is_slowed else 1.0)
            heappush(heap, (self.ends[unit], unit))
        if ended >= 0:
            self.ends[ended] = -1.0
            for place in self._places[ended]:
                del running[place][ended]
                if running[place ^ 1] and not running[place]:
                    self._move(running[place ^ 1], False, now, heap)

    def _move(
        self, units: dict[int, None], is_slowed: bool, now: float, heap: list[tuple[float, int]]
    ) -> None:
        """Slow units down, or let go those that no other device of theirs slows."""
        running = self._running
        for unit in units:
            was_slowed, places = self._is_slowed[unit], self._places[unit]
            slows = is_slowed or (len(places) > 1 and any(running[p] and running[p ^ 1] for p in places))
            if slows == was_slowed:
                continue
            slowdown = self._slowdowns[unit]
            done = (now - self._since[unit]) / (slowdown if was_slowed else 1.0)
            self._left[unit] = left = max(self._left[unit] - done, 0.0)
            self._since[unit], self._is_slowed[unit] = now, slows
            end = now + left * (slowdown if slows else 1.0)
            if end != self.ends[unit]:
                self.ends[unit] = end
                heappush(heap, (end, unit))
