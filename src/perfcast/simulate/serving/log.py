"""Steps of a window, noted one by one for a timeline."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.serving.outcome import StepLog
from perfcast.core.serving.step import StepBatch
from perfcast.simulate.serving.replica import Replica, Run


@dataclass(frozen=True, slots=True)
class _Row:
    start: float
    end: float
    steps: int
    engine: int
    pool: int
    batch: StepBatch
    running: int
    waiting: int
    kept: int


class StepNotes:
    """Notes of the steps that lie in a window, wholly or in part.

    Args:
        pools: Replicas of each; engines are counted over all of them.
        window: From when until when, in seconds.
    """

    def __init__(self, pools: list[list[Replica]], window: tuple[float, float]) -> None:
        self._begin, self._until = window
        self._rows: list[_Row] = []
        self._places: dict[int, tuple[int, int]] = {}
        for pool, replicas in enumerate(pools):
            for replica in replicas:
                for engine in replica.engines:
                    self._places[id(engine)] = (len(self._places), pool)

    def note(self, replica: Replica, run: Run) -> None:
        """A run that is over; its engines still know what they did.

        Its steps are those of the run, one by one; what the engines hold is what they hold at its end.
        """
        if run.end_seconds <= self._begin or run.begin_seconds >= self._until:
            return
        first = run.steps_until(self._begin) - 1 if self._begin > run.begin_seconds else 0
        last = run.steps_until(self._until) if self._until < run.end_seconds else run.steps
        for engine, batch in replica.planned:
            number, pool = self._places[id(engine)]
            state = (len(engine.running), len(engine.waiting), engine.kept_tokens)
            gain = engine.writers.ticks_after(1) - engine.writers.ticks
            for step in range(first, last):
                start, end = (run.begin_seconds + run.seconds_of(step + ended) for ended in (0, 1))
                grown = replace(batch, cached_tokens=batch.cached_tokens + step * gain * batch.sequences)
                self._rows.append(_Row(start, end, 1, number, pool, grown, *state))

    def log(self) -> StepLog:
        """In columns, in the order of their beginnings."""
        rows = sorted(self._rows, key=lambda row: (row.start, row.engine))

        def whole(values: list[int]) -> Integers:
            return np.array(values, dtype=np.int64)

        def floats(values: list[float]) -> Floats:
            return np.array(values, dtype=np.float64)

        return StepLog(
            start_seconds=floats([row.start for row in rows]),
            end_seconds=floats([row.end for row in rows]),
            steps=whole([row.steps for row in rows]),
            engine=whole([row.engine for row in rows]),
            pool=whole([row.pool for row in rows]),
            sequences=whole([row.batch.sequences for row in rows]),
            prompts=whole([row.batch.prompts for row in rows]),
            prompt_tokens=whole([row.batch.prompt_tokens for row in rows]),
            cached_tokens=floats([row.batch.cached_tokens for row in rows]),
            running=whole([row.running for row in rows]),
            waiting=whole([row.waiting for row in rows]),
            kv_tokens=whole([row.kept for row in rows]),
        )
