"""Recorded ranks run again, together: one engine for host threads, streams, waits and collectives.

A collective starts when its last member could, and takes as long as the shortest of the recorded durations:
the rank that came last did not wait in it. What a rank waits at a collective is what imbalance costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.simulate.engine import Played, play
from perfcast.simulate.program import Lane, Program, ProgramBuilder
from perfcast.traces.timeline.program import RankProgram


@dataclass(frozen=True)
class RankTimeline:
    """When a rank's pieces and works ran, in seconds from the start of the first rank.

    Attributes:
        step_seconds: Of each step on the host.
        work_ready: When each work's rank alone could have started it, its gap included.
        work_seconds: How long each work ran, without its gap: a collective as long as the shortest member's.
        communication_wait_seconds: How long the device stood in collectives before their last member came.
    """

    rank: int
    step_seconds: tuple[float, ...]
    measured_seconds: tuple[float, ...]
    piece_starts: tuple[float, ...]
    piece_ends: tuple[float, ...]
    work_starts: tuple[float, ...]
    work_ends: tuple[float, ...]
    work_ready: tuple[float, ...]
    work_seconds: tuple[float, ...]
    communication_wait_seconds: float


@dataclass(frozen=True)
class Timeline:
    """All ranks; ``program`` and ``played`` are what the engine ran."""

    ranks: tuple[RankTimeline, ...]
    program: Program
    played: Played

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """Seconds of each step, on the rank that takes longest."""
        count = min((len(r.step_seconds) for r in self.ranks), default=0)
        return tuple(max(r.step_seconds[i] for r in self.ranks) for i in range(count))


@dataclass(frozen=True)
class _Tasks:
    """Indices of one rank's tasks in the engine's program, and how long its works run without their gaps."""

    pieces: tuple[int, ...]
    works: tuple[int, ...]
    work_seconds: tuple[float, ...]


def play_ranks(ranks: Sequence[RankProgram]) -> Timeline:
    """Run ranks together.

    Raises:
        PlanError: A collective without all its members, or ranks that wait for each other.
    """
    builder = ProgramBuilder()
    collectives = _Collectives(builder, ranks)
    tasks = [_add_rank(builder, rank, collectives) for rank in ranks]
    program = builder.build()
    played = play(program)
    found = tuple(_read(rank, own, program, played) for rank, own in zip(ranks, tasks, strict=True))
    return Timeline(found, program, played)


class _Collectives:
    """One collective of the engine for each instance that several ranks name; it takes the shortest."""

    def __init__(self, builder: ProgramBuilder, ranks: Sequence[RankProgram]) -> None:
        members: dict[str, list[float]] = {}
        for rank in ranks:
            for work in rank.works:
                if work.collective:
                    members.setdefault(work.collective, []).append(work.seconds)
        self._seconds = {name: min(seconds) for name, seconds in members.items()}
        shared = {name: len(seconds) for name, seconds in members.items() if len(seconds) > 1}
        self._index = {name: builder.add_collective(size) for name, size in shared.items()}

    def of(self, name: str, seconds: float) -> tuple[int, float]:
        """The collective of a work (-1: none) and its seconds there."""
        return self._index.get(name, -1), self._seconds.get(name, seconds)


def _add_rank(builder: ProgramBuilder, rank: RankProgram, collectives: _Collectives) -> _Tasks:
    name = f"rank {rank.rank}"
    chains = [builder.add_lane(Lane(f"{name} {chain}")) for chain in rank.chains]
    streams = [builder.add_lane(Lane(f"{name} {stream}")) for stream in rank.streams]
    way = Lane(f"{name} launch")  # each launch has its own: any number are under way at one time
    last = [builder.add(chain, rank.offset_seconds, label="start") for chain in chains]
    begun = last[:1] if rank.offset_seconds else []  # what was launched before still begins with its rank
    issued: dict[int, int] = {}
    pieces = []
    for piece in rank.pieces:
        for launched in piece.launches:
            issued[launched] = last[piece.chain]
        task = builder.add(
            chains[piece.chain], piece.seconds, label=f"{piece.overhead.value} {piece.key[-1]}"
        )
        last[piece.chain] = task
        pieces.append(task)
    works: list[int] = []
    seconds: list[float] = []
    for index, work in enumerate(rank.works):
        after = []
        if index in issued:
            after.append(builder.add(builder.add_lane(way), work.lead_seconds, (issued[index],), "launch"))
        else:
            after += begun
        collective, own = collectives.of(work.collective, work.seconds)
        works.append(
            builder.add(streams[work.stream], work.gap_seconds + own, after, work.name, collective=collective)
        )
        seconds.append(own)
    for index, work in enumerate(rank.works):
        for awaited in work.awaits:
            builder.wait(works[index], works[awaited])
    for index, piece in enumerate(rank.pieces):
        for awaited in piece.awaits:
            builder.wait(pieces[index], works[awaited])
        if piece.after >= 0:
            builder.wait(pieces[index], pieces[piece.after])
    return _Tasks(tuple(pieces), tuple(works), tuple(seconds))


def _read(rank: RankProgram, tasks: _Tasks, program: Program, played: Played) -> RankTimeline:
    piece_starts, piece_ends = played.starts[list(tasks.pieces)], played.ends[list(tasks.pieces)]
    work_starts, work_ends = played.starts[list(tasks.works)], played.ends[list(tasks.works)]
    steps = []
    for step in rank.steps:
        begin = piece_ends[step.first_piece - 1] if step.first_piece else rank.offset_seconds
        steps.append(float(piece_ends[step.last_piece] - begin))
    ready = _ready(tasks, program, played)
    is_communication = [program.collectives[task] >= 0 for task in tasks.works]
    return RankTimeline(
        rank=rank.rank,
        step_seconds=tuple(steps),
        measured_seconds=rank.measured_seconds,
        piece_starts=tuple(piece_starts.tolist()),
        piece_ends=tuple(piece_ends.tolist()),
        work_starts=tuple(work_starts.tolist()),
        work_ends=tuple(work_ends.tolist()),
        work_ready=tuple(one + work.gap_seconds for one, work in zip(ready, rank.works, strict=True)),
        work_seconds=tasks.work_seconds,
        communication_wait_seconds=float(
            sum(
                start - one
                for start, one, counts in zip(work_starts.tolist(), ready, is_communication, strict=True)
                if counts
            )
        ),
    )


def _ready(tasks: _Tasks, program: Program, played: Played) -> list[float]:
    """When what each work stands behind on its own rank had ended."""
    ready: dict[int, float] = {}
    own = set(tasks.works)
    streams = np.asarray(program.streams)
    before: dict[int, int] = {}
    for task in tasks.works:
        stream = int(streams[task])
        ready[task] = float(played.ends[before[stream]]) if stream in before else 0.0
        before[stream] = task
    for task, awaited in zip(program.waiting, program.awaited, strict=True):
        if task in own:
            ready[task] = max(ready[task], float(played.ends[awaited]))
    return [ready[task] for task in tasks.works]
