"""A step of a sharded recommendation model as tasks on the streams of every rank.

    compute   bottom forward, lookup forward, head forward, head backward, bottom backward,
              lookup backward with its update, optimizer of the dense part
    communication  indices, pooled rows, their gradients, all-reduces of the head and of the rest

The head waits for pooled rows, the lookups' backward for their gradients, the optimizer for the all-reduces;
the head's all-reduce is behind the all-to-all of gradients on the one stream that TorchRec's process group
has. The indices exchanged are those of the next batch where input is pipelined, else the lookups wait for
them. A collective starts when its last rank is ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.forecast.recommender import RecommenderSpan
from perfcast.simulate.engine import Played, play
from perfcast.simulate.program import Lane, Program, ProgramBuilder

COMPUTE, COMMUNICATION = "compute", "communication"
#: Task → (stream, what it waits for beside the task before it on its stream, cause of its time).
TASKS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "indices": (COMMUNICATION, (), "all-to-all"),
    "bottom forward": (COMPUTE, (), "dense"),
    "lookup forward": (COMPUTE, (), "lookup forward"),
    "pooled": (COMMUNICATION, ("lookup forward",), "all-to-all"),
    "head forward": (COMPUTE, ("pooled",), "dense"),
    "head backward": (COMPUTE, (), "dense"),
    "gradients": (COMMUNICATION, ("head backward",), "all-to-all"),
    "bottom backward": (COMPUTE, (), "dense"),
    "all-reduce head": (COMMUNICATION, ("head backward",), "all-reduce"),
    "lookup backward": (COMPUTE, ("gradients",), "lookup backward"),
    "all-reduce bottom": (COMMUNICATION, ("bottom backward", "lookup backward"), "all-reduce"),
    "optimizer": (COMPUTE, ("all-reduce head", "all-reduce bottom"), "dense"),
}


@dataclass(frozen=True)
class StepSeconds:
    """Durations: of tasks that are equal on all ranks, and of lookups on each."""

    common: Mapping[str, float]
    lookup_forward: Sequence[float]
    lookup_backward: Sequence[float]

    def of(self, task: str, rank: int) -> float:
        """Of a task on a rank."""
        if task == "lookup forward":
            return self.lookup_forward[rank]
        if task == "lookup backward":
            return self.lookup_backward[rank]
        return self.common.get(task, 0.0)


@dataclass(frozen=True)
class PlayedStep:
    """When every task of every rank ran."""

    spans: tuple[RecommenderSpan, ...]
    step_seconds: float

    def causes(self, rank: int) -> dict[str, float]:
        """Seconds of a rank by cause; they add up to the step."""
        mine = [span for span in self.spans if span.rank == rank]
        found = dict.fromkeys(("dense", "lookup forward", "lookup backward", "all-to-all", "all-reduce"), 0.0)
        compute = sorted((s for s in mine if s.stream == COMPUTE), key=lambda s: s.start_seconds)
        collectives = [s for s in mine if s.stream == COMMUNICATION]
        last = 0.0
        for span in [*compute, RecommenderSpan(rank, COMPUTE, "", self.step_seconds, self.step_seconds)]:
            for other in collectives:
                shared = min(span.start_seconds, other.end_seconds) - max(last, other.start_seconds)
                found[TASKS[other.label][2]] += max(shared, 0.0)
            if span.label:
                found[TASKS[span.label][2]] += span.end_seconds - span.start_seconds
            last = max(last, span.end_seconds)
        found["waiting"] = max(self.step_seconds - sum(found.values()), 0.0)
        return found


def play_step(seconds: StepSeconds, world_size: int, pipelined_input: bool) -> PlayedStep:
    """Run the step once, from a state in which all ranks are idle."""
    program, names = _build(seconds, world_size, pipelined_input)
    played = play(program)
    return PlayedStep(_spans(names, played), played.makespan_seconds)


def _build(
    seconds: StepSeconds, world_size: int, pipelined_input: bool
) -> tuple[Program, list[tuple[int, str]]]:
    builder, names = ProgramBuilder(), list[tuple[int, str]]()
    lanes = {
        (rank, name): builder.add_lane(Lane(f"rank {rank} {name}", rank, communicates=name == COMMUNICATION))
        for rank in range(world_size)
        for name in (COMPUTE, COMMUNICATION)
    }
    tasks: dict[tuple[int, str], int] = {}
    for task, (stream, waits, _) in TASKS.items():
        if stream == COMMUNICATION and (world_size == 1 or not seconds.of(task, 0)):
            continue
        extra = ("indices",) if task == "lookup forward" and not pipelined_input else ()
        collective = builder.add_collective(world_size) if stream == COMMUNICATION else -1
        for rank in range(world_size):
            after = [tasks[rank, name] for name in (*waits, *extra) if (rank, name) in tasks]
            tasks[rank, task] = builder.add(
                lanes[rank, stream], seconds.of(task, rank), after, task, collective=collective
            )
            names.append((rank, task))
    return builder.build(), names


def _spans(names: Sequence[tuple[int, str]], played: Played) -> tuple[RecommenderSpan, ...]:
    return tuple(
        RecommenderSpan(rank, TASKS[task][0], task, float(start), float(end))
        for (rank, task), start, end in zip(names, played.starts.tolist(), played.ends.tolist(), strict=True)
        if end > start
    )
