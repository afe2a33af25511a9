"""Compute and communication on one device slow each other down while both run.

A collective's kernels occupy multiprocessors and move their bytes through the memory that the kernels beside
them use. A unit of work with slowdown k advances at the rate 1/k while its device runs both sides, else at
1; ends are moved at the moments where that changes, so they are exact for rates that are constant in
between.
"""

from __future__ import annotations

from heapq import heappush

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.simulate.program import Program


class Sharing:
    """Work that is left of running units, and when they will end.

    Attributes:
        ends: Of each unit that runs, when it ends as things stand; an event of another time is out of date.
    """

    def __init__(self, seconds: list[float], slowdowns: list[float], places: list[tuple[int, ...]]) -> None:
        """``places``: of each unit, twice the number of every device of it, plus 1 if it exchanges."""
        self.ends = [-1.0] * len(seconds)
        self._left = seconds
        self._slowdowns = slowdowns
        self._places = places
        self._since = [0.0] * len(seconds)
        self._is_slowed = [False] * len(seconds)
        num_places = 1 + (max((place for unit in places for place in unit), default=0) | 1)
        self._running: list[list[int]] = [[] for _ in range(num_places)]
        self._is_mixed = [False] * (num_places // 2)

    @classmethod
    def of(cls, program: Program, of_task: Integers) -> Sharing | None:
        """Of a program; None where nothing can slow down."""
        if not any(slowdown > 1 for slowdown in program.slowdowns):
            return None
        num_units = int(of_task.max(initial=-1)) + 1
        seconds, slowdowns = np.zeros(num_units), np.ones(num_units)
        np.maximum.at(seconds, of_task, np.asarray(program.seconds, dtype=np.float64))
        np.maximum.at(slowdowns, of_task, np.asarray(program.slowdowns, dtype=np.float64))
        return cls(seconds.tolist(), slowdowns.tolist(), _places(program, of_task.tolist()))

    def change(self, begun: list[int], ended: int, now: float, heap: list[tuple[float, int]]) -> None:
        """Units begin, one ends (-1: none): put the ends that are new or that move on the heap.

        A kernel that follows another at once does not interrupt the collective beside them.
        """
        running, places, is_mixed, ends = self._running, self._places, self._is_mixed, self.ends
        for unit in begun:
            for place in places[unit]:
                running[place].append(unit)
        if ended >= 0:
            ends[ended] = -1.0
            for place in places[ended]:
                running[place].remove(ended)
                mixed = bool(running[place] and running[place ^ 1])
                if mixed != is_mixed[place >> 1]:
                    is_mixed[place >> 1] = mixed
                    self._move(place, now, heap)
        for unit in begun:
            slowed = False
            for place in places[unit]:
                if running[place ^ 1]:
                    slowed = True
                    if not is_mixed[place >> 1]:
                        is_mixed[place >> 1] = True
                        self._move(place, now, heap)
            end = now + (self._left[unit] * self._slowdowns[unit] if slowed else self._left[unit])
            ends[unit] = end
            self._since[unit] = now
            self._is_slowed[unit] = slowed
            heappush(heap, (end, unit))

    def _move(self, place: int, now: float, heap: list[tuple[float, int]]) -> None:
        """Change the rates of a device's units, but those that begin at this moment and those that another
        device of theirs slows in any case."""
        ends, is_slowed, slowdowns, since = self.ends, self._is_slowed, self._slowdowns, self._since
        mixed = self._is_mixed[place >> 1]
        for unit in self._running[place] + self._running[place ^ 1]:
            if ends[unit] < 0 or is_slowed[unit] == mixed:
                continue
            if mixed:
                left = self._left[unit] - (now - since[unit])
                end = now + left * slowdowns[unit]
            elif len(self._places[unit]) == 1 or not any(self._is_mixed[p >> 1] for p in self._places[unit]):
                left = self._left[unit] - (now - since[unit]) / slowdowns[unit]
                end = now + left
            else:
                continue
            self._left[unit], since[unit], is_slowed[unit] = max(left, 0.0), now, mixed
            if end != ends[unit]:
                ends[unit] = end = max(end, now)
                heappush(heap, (end, unit))


def _places(program: Program, of_task: list[int]) -> list[tuple[int, ...]]:
    """Of each unit, its places. A collective with members on both sides of a device exchanges there."""
    of_lane = [(2 * lane.device + lane.communicates,) if lane.device >= 0 else () for lane in program.lanes]
    places: list[tuple[int, ...]] = [()] * (max(of_task, default=-1) + 1)
    for unit, stream in zip(of_task, program.streams, strict=True):
        own, more = places[unit], of_lane[stream]
        if not own or not more:
            places[unit] = own or more
        elif own != more:
            sides: dict[int, int] = {}
            for place in (*own, *more):
                sides[place // 2] = max(place, sides.get(place // 2, 0))
            places[unit] = tuple(sides.values())
    return places
