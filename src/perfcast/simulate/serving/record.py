"""What is noted of requests while they are played, and the columns that this becomes."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.serving.load import ClosedLoad, Load, MeasuredWindow, OpenLoad
from perfcast.core.serving.outcome import Occupancy, Played
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.step import StepBatch, StepTimes, batches_in_columns
from perfcast.core.serving.tabulated import BOUNDS

_NOT_YET = float("nan")
_TINY = 1e-300
_STEADY_SHARE = 0.1


class Record:
    """Notes of one run.

    Args:
        num_requests: Of it.
    """

    def __init__(self, num_requests: int) -> None:
        self.sent = [_NOT_YET] * num_requests
        self.started = [_NOT_YET] * num_requests
        self.first = [_NOT_YET] * num_requests
        self.finished = [_NOT_YET] * num_requests
        self.preemptions = [0] * num_requests
        self.replica = [0] * num_requests
        self.num_steps = 0
        self.busy_seconds = 0.0
        self._pauses: list[tuple[float, int]] = []  # who has no place (+1 waits, -1 runs again)
        self._kept: list[tuple[float, int]] = []
        self._steps: dict[int, list[tuple[float, StepBatch]]] = {}

    def start(self, number: int, seconds: float) -> None:
        """A request has a place: for the first time, or again."""
        if self.started[number] != self.started[number]:
            self.started[number] = seconds
        else:
            self._pauses.append((seconds, -1))

    def lose_place(self, seconds: float) -> None:
        """Some request that had one has none."""
        self._pauses.append((seconds, 1))

    def keep(self, seconds: float, more_tokens: int) -> None:
        """So many more tokens' keys and values are held."""
        if more_tokens:
            self._kept.append((seconds, more_tokens))

    def step(self, pool: int, run_seconds: float, steps: int, batches: list[StepBatch]) -> None:
        """A run of steps of one replica."""
        self.num_steps += steps * len(batches)
        self.busy_seconds += run_seconds * len(batches)
        self._steps.setdefault(pool, []).extend((run_seconds, batch) for batch in batches)

    # -- columns

    def played(
        self, requests: Requests, load: Load, times: tuple[StepTimes, ...], measure: MeasuredWindow
    ) -> Played:
        """Everything, in the order of the requests."""
        sent, finished = np.array(self.sent), np.array(self.finished)
        begin, end = _window(load, measure, sent, finished)
        return Played(
            sent_seconds=sent,
            started_seconds=np.array(self.started),
            first_token_seconds=np.array(self.first),
            finished_seconds=finished,
            answer_tokens=requests.answer_tokens,
            prompt_tokens=requests.prompt_tokens,
            preemptions=np.array(self.preemptions, dtype=np.int64),
            replica=np.array(self.replica, dtype=np.int64),
            num_steps=self.num_steps,
            busy_seconds=self.busy_seconds,
            seconds_by_bound=self._seconds_by_bound(times),
            occupancy=self._occupancy(sent, finished),
            measured_from_seconds=begin,
            measured_to_seconds=end,
        )

    def _seconds_by_bound(self, times: tuple[StepTimes, ...]) -> dict[str, float]:
        total: dict[str, float] = {}
        for pool, rows in sorted(self._steps.items()):
            seconds = np.array([row[0] for row in rows])
            batches = [row[1] for row in rows]
            by_bound = times[pool].seconds_by_bound(batches_in_columns(batches))
            shares = by_bound / np.maximum(by_bound.sum(axis=1, keepdims=True), _TINY)
            for bound, summed in zip(BOUNDS, (shares * seconds[:, None]).sum(axis=0), strict=True):
                total[bound] = total.get(bound, 0.0) + float(summed)
        return total

    def _occupancy(self, sent: Floats, finished: Floats) -> Occupancy:
        started = np.array(self.started)
        pauses = np.array(self._pauses, dtype=float).reshape(-1, 2)
        kept = np.array(self._kept, dtype=float).reshape(-1, 2)
        num = len(sent)
        none, one = np.zeros(num), np.ones(num)
        seconds = np.concatenate([sent, started, finished, pauses[:, 0], kept[:, 0]])
        no_kept = np.zeros(len(kept))
        running = np.concatenate([none, one, -one, -pauses[:, 1], no_kept])
        waiting = np.concatenate([one, -one, none, pauses[:, 1], no_kept])
        tokens = np.concatenate([none, none, none, np.zeros(len(pauses)), kept[:, 1]])
        order = np.argsort(seconds, kind="stable")
        seconds = seconds[order]
        last = np.append(np.diff(seconds) > 0, True)

        def summed(changes: Floats) -> Integers:
            return np.asarray(np.round(np.cumsum(changes[order]))[last], dtype=np.int64)

        return Occupancy(seconds[last], summed(running), summed(waiting), summed(tokens))


def _window(load: Load, measure: MeasuredWindow, sent: Floats, finished: Floats) -> tuple[float, float]:
    """Of all requests; or in a closed loop from when as many answers as clients are complete until the last
    request is sent, in a stream without the first and the last tenth of its time."""
    if measure == "all":
        return 0.0, float(finished.max())
    if isinstance(load, ClosedLoad):
        wave = min(load.concurrency, len(sent))
        begin, end = float(np.sort(finished)[wave - 1]), float(sent.max())
    elif isinstance(load, OpenLoad):
        begin, end = _STEADY_SHARE * float(sent.max()), (1 - _STEADY_SHARE) * float(sent.max())
    else:
        begin, end = 0.0, float(sent.max())
    return (begin, end) if end > begin else (0.0, float(finished.max()))
