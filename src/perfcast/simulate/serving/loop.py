"""The events between clients, routers and replicas, in a total order: (time, kind, number)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from heapq import heappop, heappush

from perfcast.core.serving.requests import Requests
from perfcast.simulate.serving.log import StepNotes
from perfcast.simulate.serving.record import Record
from perfcast.simulate.serving.replica import Replica
from perfcast.simulate.serving.route import Router
from perfcast.simulate.serving.schedulers.base import Scheduler
from perfcast.simulate.serving.sequence import Sequence


class _Kind(IntEnum):
    """Of events; at one time the smaller comes first."""

    END = 0  # of a run of steps
    LOADED = 1  # keys and values have come to the pool that writes
    ARRIVAL = 2  # of a request at the router
    BEGIN = 3  # of a step


@dataclass(slots=True)
class Handed:
    """A request that was read in one pool and is to be written in the other.

    Attributes:
        sequence: As the other pool knows it.
        source: Who holds its keys and values until they are over: replica, engine, and its sequence there.
    """

    sequence: Sequence
    source: tuple[Replica, Scheduler, Sequence]


@dataclass(slots=True)
class Stage:
    """A pool on a request's way.

    Attributes:
        number: 0 for that which reads, 1 for that which writes what the other has read.
        replicas: Of it.
        router: Before them.
        recomputes_token: Whether the last token of a prompt from elsewhere is computed here once more, and
            with it the first of the answer; it came along otherwise.
        streams_when_loaded: Whether that first token goes to the client as soon as keys and values are
            here; with the first step here otherwise.
        pending: Who waits for room, by engine.
    """

    number: int
    replicas: list[Replica]
    router: Router
    recomputes_token: bool = False
    streams_when_loaded: bool = False
    pending: dict[int, deque[Handed]] = field(default_factory=dict)


class Loop:
    """Plays requests until all are answered.

    Args:
        requests: In their order.
        stages: One pool, or the one that reads and the one that writes.
        clients: Of a closed loop; None: requests come at their times.
        request_seconds: From a client to the engine's queue.
        transfer: Seconds that keys and values of a prompt of so many tokens take between two pools.
        notes: Of single steps; None: not asked for.
    """

    def __init__(
        self,
        requests: Requests,
        stages: list[Stage],
        *,
        clients: int | None,
        request_seconds: float,
        transfer: Callable[[int], float],
        notes: StepNotes | None = None,
    ) -> None:
        self.record = Record(len(requests))
        self._notes = notes
        self._stages, self._request_seconds, self._transfer = stages, request_seconds, transfer
        self._prompts = requests.prompt_tokens.tolist()
        self._answers = requests.answer_tokens.tolist()
        self._cached = requests.cached_tokens.tolist()
        self._stage_of = {id(replica): stage for stage in stages for replica in stage.replicas}
        self._kept = {id(replica): 0 for stage in stages for replica in stage.replicas}
        self._sources: dict[int, tuple[Replica, Scheduler, Sequence]] = {}
        self._fresh: dict[int, list[Sequence]] = {}  # joined, but without a step yet, by engine
        self._heap: list[tuple[float, int, int, Callable[[float], None]]] = []
        self._count = self._next = 0
        self._closed = clients is not None
        arrivals = requests.arrival_seconds.tolist()
        for number in range(len(requests) if clients is None else min(clients, len(requests))):
            self._send(0.0 if self._closed else arrivals[number])

    def play(self) -> Record:
        """All events, until none is left."""
        while self._heap:
            now, _, _, happens = heappop(self._heap)
            happens(now)
        return self.record

    def _push(self, seconds: float, kind: _Kind, happens: Callable[[float], None]) -> None:
        self._count += 1
        heappush(self._heap, (seconds, kind, self._count, happens))

    # -- clients

    def _send(self, now: float) -> None:
        number = self._next
        self._next += 1
        self.record.sent[number] = now
        self._push(now + self._request_seconds, _Kind.ARRIVAL, partial(self._arrive, number))

    def _arrive(self, number: int, now: float) -> None:
        replica, engine = self._stages[0].router.choose()
        sequence = Sequence(number, self._prompts[number], self._answers[number], self._cached[number])
        if replica.take(engine, sequence, now):
            self._end_later(replica)
        self._wake(replica, now)

    def _answered(self, number: int, now: float) -> None:
        record = self.record
        if record.first[number] != record.first[number]:
            record.first[number] = now
        record.finished[number] = now
        if self._closed and self._next < len(self._prompts):
            self._send(now)

    # -- steps

    def _wake(self, replica: Replica, now: float) -> None:
        """An idle replica looks at its queues."""
        if replica.run is None and not replica.begin_is_due:
            replica.begin_is_due = True
            self._push(now, _Kind.BEGIN, partial(self._begin, replica, False))

    def _end_later(self, replica: Replica) -> None:
        """The end of a run is known, or known anew."""
        replica.version += 1
        if replica.run is not None:
            self._push(replica.run.end_seconds, _Kind.END, partial(self._end, replica, replica.version))

    def _begin(self, replica: Replica, continues: bool, now: float) -> None:
        replica.begin_is_due = False
        stage = self._stage_of[id(replica)]
        if stage.pending:
            self._reserve(stage, replica, now)
        for engine, sequence in replica.loaded:
            self._fresh.setdefault(id(engine), []).append(sequence)
        run = replica.begin(now, continues=continues)
        self._note(replica, now)
        if run is None:
            return
        if self._fresh:
            self._note_first_steps(replica, now + run.seconds_of(1))
        self._end_later(replica)

    def _note(self, replica: Replica, now: float) -> None:
        """Who has got or lost a place."""
        for engine in replica.engines:
            for sequence in engine.started:
                self.record.start(sequence.number, now)
            for sequence in engine.preempted:
                self.record.preemptions[sequence.number] += 1
                self.record.lose_place(now)
            engine.started.clear()
            engine.preempted.clear()
        self._note_kept(replica, now)

    def _note_kept(self, replica: Replica, now: float) -> None:
        kept = replica.kept_tokens
        self.record.keep(now, kept - self._kept[id(replica)])
        self._kept[id(replica)] = kept

    def _note_first_steps(self, replica: Replica, end: float) -> None:
        for engine in replica.writing_engines():
            for sequence in self._fresh.pop(id(engine), ()):
                if self.record.first[sequence.number] != self.record.first[sequence.number]:
                    self.record.first[sequence.number] = end

    def _end(self, replica: Replica, version: int, now: float) -> None:
        if version != replica.version:
            return
        stage = self._stage_of[id(replica)]
        if self._notes is not None and replica.run is not None:
            self._notes.note(replica, replica.run)
        run, done = replica.complete()
        self.record.step(stage.number, run.seconds_of(run.steps), run.steps, run.batches)
        for engine, completed in done:
            if stage.number == len(self._stages) - 1:
                for sequence in completed.first:
                    if self.record.first[sequence.number] != self.record.first[sequence.number]:
                        self.record.first[sequence.number] = now
            for sequence in completed.finished:
                stage.router.leave(engine)
                if stage.number < len(self._stages) - 1 and sequence.answer > 1:
                    self._hand_over(replica, engine, sequence, now)
                else:
                    if engine.hands_over:
                        engine.release(sequence)
                    self.record.replica[sequence.number] = replica.number
                    self._answered(sequence.number, now)
        self._note_kept(replica, now)
        replica.begin_is_due = True
        self._push(now, _Kind.BEGIN, partial(self._begin, replica, True))

    # -- from pool to pool

    def _hand_over(self, source: Replica, engine: Scheduler, sequence: Sequence, now: float) -> None:
        """A prompt was read: its request waits for room where answers are written."""
        stage = self._stages[1]
        number = sequence.number
        written = 0 if stage.recomputes_token else 1
        handed = Handed(
            Sequence(number, sequence.prompt, sequence.answer, 0, written), (source, engine, sequence)
        )
        replica, writer = stage.router.choose()
        stage.pending.setdefault(id(writer), deque()).append(handed)
        self.record.lose_place(now)
        if replica.cut(now):
            self._end_later(replica)
        self._wake(replica, now)

    def _reserve(self, stage: Stage, replica: Replica, now: float) -> None:
        for engine in replica.engines:
            queue = stage.pending.get(id(engine))
            while queue and not engine.waiting and engine.reserve(queue[0].sequence):
                handed = queue.popleft()
                self.record.start(handed.sequence.number, now)
                seconds = now + self._transfer(handed.sequence.prompt)
                self._push(seconds, _Kind.LOADED, partial(self._loaded, replica, engine, handed))
            if queue is not None and not queue:
                del stage.pending[id(engine)]

    def _loaded(self, replica: Replica, engine: Scheduler, handed: Handed, now: float) -> None:
        source, reader, read = handed.source
        reader.release(read)
        self._note_kept(source, now)
        self._wake(source, now)
        if self._stage_of[id(replica)].streams_when_loaded:
            self.record.first[read.number] = now
        replica.loaded.append((engine, handed.sequence))
        if replica.cut(now):
            self._end_later(replica)
        self._wake(replica, now)
