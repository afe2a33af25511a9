"""The differing ranks of a parallel program, simulated together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from perfcast.core.collective import format_ranks, parse_ranks
from perfcast.core.operation import Operation
from perfcast.core.work import Call
from perfcast.errors import PlanError
from perfcast.prediction.parallel_program.places import Place, Places
from perfcast.simulate.engine import Played, play
from perfcast.simulate.program import Lane, Program, ProgramBuilder
from perfcast.workload.parallel_program.calls import CallCollective, RankCalls
from perfcast.workload.parallel_program.capture import ParallelProgram


@dataclass(frozen=True, slots=True)
class Task:
    """A call of a simulated rank, as a task of the engine's program.

    Attributes:
        place: Index of the simulated rank.
        call: Index into the calls of its class.
        host: The task that issues it, or -1.
        before: The task before it on its lane, or -1.
    """

    place: int
    call: int
    host: int
    before: int


@dataclass(frozen=True)
class RanksPlayed:
    """A simulation of ranks.

    Attributes:
        tasks: By their number in ``program``; None for those of hosts.
        meetings: Of each collective between several simulated ranks, its tasks.
        stage_classes: Classes of the ranks that messages connect with the first, it too.
    """

    places: tuple[Place, ...]
    calls: tuple[RankCalls, ...]
    program: Program
    tasks: tuple[Task | None, ...]
    meetings: tuple[tuple[int, ...], ...]
    stage_classes: tuple[int, ...]
    played: Played

    def call(self, task: Task) -> Call:
        """What a task runs."""
        return self.calls[self.places[task.place].of_class].calls[task.call]


def simulate_ranks_of(
    program: ParallelProgram,
    calls: Sequence[RankCalls],
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
) -> RanksPlayed:
    """Play what the differing ranks run, with the collectives in which they meet.

    A send and its receive begin when both ranks have come to them, as NCCL's do; so do collectives of ranks
    that differ.

    Args:
        calls: Of each class.
        seconds: Of one run of each operation.
        launch_seconds: Of the host, from one kernel to the next; 0 where it is far ahead.
        slowdown: Factors of compute and of communication while a device runs both.

    Raises:
        PlanError: Ranks that wait for each other, or for a collective that others do not take part in.
        CaptureError: Groups that cannot be told.
    """
    places = Places(program, calls)
    prices = [[seconds[call.operation] for call in one.calls] for one in calls]
    meetings = _find_meetings(places, calls)
    builder = ProgramBuilder()
    collective_of: dict[tuple[int, int], int] = {}
    for members in meetings:
        collective = builder.add_collective(len(members))
        collective_of.update((member, collective) for member in members)
    tasks: list[Task | None] = []
    for index, place in enumerate(places.places):
        one = calls[place.of_class]
        _add_rank(
            builder, tasks, index, place, one, prices[place.of_class], collective_of, launch_seconds, slowdown
        )
    number = {(task.place, task.call): at for at, task in enumerate(tasks) if task is not None}
    built = builder.build()
    return RanksPlayed(
        places.places,
        tuple(calls),
        built,
        tuple(tasks),
        tuple(tuple(number[member] for member in members) for members in meetings),
        places.stage_classes,
        play(built),
    )


def _add_rank(
    builder: ProgramBuilder,
    tasks: list[Task | None],
    index: int,
    place: Place,
    rank: RankCalls,
    seconds: Sequence[float],
    collective_of: Mapping[tuple[int, int], int],
    launch_seconds: float,
    slowdown: tuple[float, float],
) -> None:
    host = builder.add_lane(Lane(f"rank {place.rank} host")) if launch_seconds else -1
    lanes: dict[str, int] = {}
    last: dict[str, int] = {}
    number: list[int] = []
    for position, (call, name) in enumerate(zip(rank.calls, rank.lanes, strict=True)):
        communicates = rank.collectives[position] is not None
        if name not in lanes:
            lanes[name] = builder.add_lane(Lane(f"rank {place.rank} {name}", index, communicates))
        after = [number[other] for other in call.after]
        issued = -1
        if launch_seconds:
            issued = builder.add(host, launch_seconds * call.num_launches, label=f"issue {call.module}")
            tasks.append(None)
            after.append(issued)
        number.append(
            builder.add(
                lanes[name], seconds[position], after, call.operation.name,
                collective=collective_of.get((index, position), -1), slowdown=slowdown[communicates],
            )
        )  # fmt: skip
        tasks.append(Task(index, position, issued, last.get(name, -1)))
        last[name] = number[-1]


# ---- who meets whom ----------------------------------------------------------------------------------


#: The members of a collective: simulated ranks, and which of their calls.
Meeting = tuple[tuple[int, int], ...]


def _find_meetings(places: Places, calls: Sequence[RankCalls]) -> list[Meeting]:
    """Collectives of several simulated ranks, each as its (place, call) pairs.

    The n-th send of a rank to another is that one's n-th receive from it. The n-th collective of a rank over
    a group is the n-th of each simulated rank in it.
    """
    sent: dict[tuple[int, int], list[tuple[int, int]]] = {}
    received: dict[tuple[int, int], list[tuple[int, int]]] = {}
    groups: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    roots = _Roots(len(places.places))
    seen: Counter[tuple[int, str, str]] = Counter()
    for index, place in enumerate(places.places):
        one = calls[place.of_class]
        for position, collective in enumerate(one.collectives):
            if collective is None:
                continue
            if collective.peer >= 0:
                if not places.is_of_one_class(place.rank, collective):
                    _note_message(places, index, position, collective, one, sent, received)
                continue
            members = places.members(place.rank, collective)
            if len(members) > 1:
                roots.join(members)
                key = (one.calls[position].operation.name, _shape(collective.group))
                occurrence = seen[(index, *key)]
                seen[(index, *key)] += 1
                groups.setdefault((*key, occurrence), []).append((index, position))
    _check_messages(places, sent, received)
    found: list[Meeting] = [pair for key in sent for pair in zip(sent[key], received[key], strict=True)]
    for (name, shape, occurrence), all_members in groups.items():
        for part in _parts_that_meet(all_members, roots):
            _check_meeting(places, calls, name, occurrence, part, shape)
            if len(part) > 1:
                found.append(tuple(part))
    return found


def _parts_that_meet(members: Sequence[tuple[int, int]], roots: _Roots) -> list[list[tuple[int, int]]]:
    """Members of groups of one shape, by the group that they are in."""
    parts: dict[int, list[tuple[int, int]]] = {}
    for member in members:
        parts.setdefault(roots.root(member[0]), []).append(member)
    return list(parts.values())


@lru_cache(maxsize=4096)
def _shape(group: str) -> str:
    """A group as it is when it begins at rank 0."""
    ranks = parse_ranks(group)
    low = min(ranks)
    return format_ranks([one - low for one in ranks])


def _note_message(
    places: Places,
    index: int,
    position: int,
    collective: CallCollective,
    rank: RankCalls,
    sent: dict[tuple[int, int], list[tuple[int, int]]],
    received: dict[tuple[int, int], list[tuple[int, int]]],
) -> None:
    peer = places.index(places.peer(places.places[index].rank, collective))
    if rank.calls[position].operation.name == "send":
        sent.setdefault((index, peer), []).append((index, position))
    else:
        received.setdefault((peer, index), []).append((index, position))


def _check_messages(
    places: Places,
    sent: Mapping[tuple[int, int], list[tuple[int, int]]],
    received: Mapping[tuple[int, int], list[tuple[int, int]]],
) -> None:
    for key in {**sent, **received}:
        num_sent, num_received = len(sent.get(key, ())), len(received.get(key, ()))
        if num_sent != num_received:
            source, destination = (places.places[index].rank for index in key)
            raise PlanError(
                f"rank {source} sends rank {destination} {num_sent} messages, which receives {num_received}"
            )


def _check_meeting(
    places: Places,
    calls: Sequence[RankCalls],
    name: str,
    occurrence: int,
    part: Sequence[tuple[int, int]],
    shape: str,
) -> None:
    """All simulated ranks of a group take part."""
    there = {index for index, _ in part}
    for index, position in part:
        place = places.places[index]
        collective = calls[place.of_class].collectives[position]
        assert collective is not None
        absent = places.members(place.rank, collective) - there
        if absent:
            other = places.places[min(absent)].rank
            raise PlanError(
                f"rank {place.rank} issues {name} number {occurrence + 1} over a group of shape {shape}, and "
                f"rank {other} of it does not: the program would hang"
            )


class _Roots:
    """Sets of indices that belong together."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def root(self, index: int) -> int:
        """The least of those that an index belongs with."""
        while self._parents[index] != index:
            index = self._parents[index]
        return index

    def join(self, indices: frozenset[int]) -> None:
        """All of these belong together."""
        roots = {self.root(index) for index in indices}
        for root in roots:
            self._parents[root] = min(roots)
