"""A stage's stream of gathers and collectives, followed beside its compute."""

from __future__ import annotations


class DataStream:
    """Tasks in the order in which they were issued; each may start once it is ready.

    Attributes:
        slowdown: Factor on its tasks while compute runs beside them.
        is_idle: Whether all tasks so far have ended.
        num_tasks: Issued so far.
    """

    __slots__ = ("_at", "_clock", "_ends", "_left", "_ready", "is_idle", "num_tasks", "slowdown")

    def __init__(self, slowdown: float) -> None:
        self.slowdown = slowdown
        self.is_idle, self.num_tasks = True, 0
        self._at, self._clock = 0, 0.0
        self._ready: list[float] = []
        self._left: list[float] = []
        self._ends: list[float] = []

    def add(self, ready: float, seconds: float) -> int:
        """A new task, which may start at ``ready``; returns its number."""
        self._ready.append(ready)
        self._left.append(seconds)
        self._ends.append(-1.0)
        self.is_idle = False
        self.num_tasks += 1
        return self.num_tasks - 1

    def finish(self, task: int) -> float:
        """Its end, where the compute beside it is idle from now on."""
        while self._at <= task:
            self._end_at(max(self._clock, self._ready[self._at]) + self._left[self._at])
        return self._ends[task]

    def run_until(self, moment: float) -> None:
        """Go on alone until then."""
        while self._at < self.num_tasks:
            begun = max(self._clock, self._ready[self._at])
            if begun >= moment:
                return
            end = begun + self._left[self._at]
            if end > moment:
                self._left[self._at], self._clock = end - moment, moment
                return
            self._end_at(end)

    def run_beside(self, start: float, seconds: float, factor: float) -> float:
        """End of a unit of compute, which is slower by a factor while tasks run beside it.

        All tasks that it does not itself let start are ready when it begins.
        """
        self.run_until(start)
        now, work = start, seconds
        while self._at < self.num_tasks:
            needed, wall = self._left[self._at] * self.slowdown, work * factor
            if needed > wall:
                self._left[self._at] -= wall / self.slowdown
                self._clock = now + wall
                return now + wall
            now += needed
            work -= needed / factor
            self._end_at(now)
        return now + work

    def _end_at(self, moment: float) -> None:
        """The task whose turn it is has ended."""
        self._ends[self._at] = self._clock = moment
        self._at += 1
        self.is_idle = self._at == self.num_tasks
