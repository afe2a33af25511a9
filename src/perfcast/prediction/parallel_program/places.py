"""Which ranks of a parallel program are simulated, and which of them meet in a collective.

Ranks of one class run the same calls, but not always at the same time: stages of a pipeline between the first
and the last may be one class, and each waits for the one before it. So one rank of each class is simulated,
and every rank that one of them sends to or receives from, unless the whole group is of one class: then all of
its ranks send at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfcast.errors import CaptureError
from perfcast.workload.parallel_program.calls import CallCollective, RankCalls
from perfcast.workload.parallel_program.capture import ParallelProgram


@dataclass(frozen=True, slots=True)
class Place:
    """A rank that is simulated.

    Attributes:
        of_class: Index into the program's ranks, whose calls it runs.
        num_equal: Ranks that it stands for.
        stage: How many of the simulated ranks that messages connect with it come before it.
    """

    rank: int
    of_class: int
    num_equal: int
    stage: int


class Places:
    """The simulated ranks of a program, and who is where."""

    def __init__(self, program: ParallelProgram, calls: Sequence[RankCalls]) -> None:
        self._program = program
        self._captured = [one.rank for one in calls]
        self._groups: dict[tuple[int, str], tuple[int, ...]] = {}
        self._are_equal: dict[tuple[int, str], bool] = {}
        self._members: dict[tuple[int, str], frozenset[int]] = {}
        collectives = [dict.fromkeys(e for e in one.collectives if e is not None) for one in calls]
        found = self._connected(self._captured, collectives)
        chains = {rank: sorted(self._connected((rank,), collectives)) for rank in found}
        self.places = self._counted({rank: chains[rank].index(rank) for rank in sorted(found)})
        self._index = {place.rank: index for index, place in enumerate(self.places)}
        self.stage_classes = tuple(program.class_of_rank[rank] for rank in chains[self._captured[0]])

    def _connected(self, ranks: Sequence[int], collectives: Sequence[Iterable[CallCollective]]) -> set[int]:
        """Ranks, and all that messages lead to from them."""
        found, waiting = set(ranks), list(ranks)
        while waiting:
            rank = waiting.pop()
            new = set(self._peers(rank, collectives[self._program.class_of_rank[rank]])) - found
            found |= new
            waiting.extend(new)
        return found

    def _peers(self, rank: int, collectives: Iterable[CallCollective]) -> Iterable[int]:
        return [self.peer(rank, e) for e in collectives if e.peer >= 0 and not self.is_of_one_class(rank, e)]

    def _counted(self, ranks: Mapping[int, int]) -> tuple[Place, ...]:
        """Simulated ranks, given with their stages; those of a class are divided among them."""
        classes = self._program.class_of_rank
        simulated, all_of = dict[int, list[int]](), dict[int, int]()
        for rank in ranks:
            simulated.setdefault(classes[rank], []).append(rank)
        for one in classes:
            all_of[one] = all_of.get(one, 0) + 1
        places = []
        for rank in ranks:
            same = simulated[classes[rank]]
            share, rest = divmod(all_of[classes[rank]], len(same))
            count = share + (same.index(rank) < rest)
            places.append(Place(rank, classes[rank], count, ranks[rank]))
        return tuple(places)

    # ---- groups -----------------------------------------------------------------------------

    def group(self, rank: int, collective: CallCollective) -> tuple[int, ...]:
        """The group of ``rank`` that is to it what a collective's is to the captured rank of its class.

        It differs from its members in the same coordinates.

        Raises:
            CaptureError: The group is not made of the program's axes.
        """
        key = (rank, collective.group)
        if key not in self._groups:
            own, axes = list(collective.ranks), self._program.axes
            varying = [len({one // axis.stride % axis.size for one in own}) > 1 for axis in axes]
            moved = tuple(
                sum(
                    axis.stride * ((one if varies else rank) // axis.stride % axis.size)
                    for axis, varies in zip(axes, varying, strict=True)
                )
                for one in own
            )
            if rank not in moved:
                raise CaptureError(
                    f"ranks {own} exchange among themselves; it is not clear among whom rank {rank}, "
                    "which runs the same program, does: its groups are not evenly spaced"
                )
            self._groups[key] = moved
        return self._groups[key]

    def peer(self, rank: int, collective: CallCollective) -> int:
        """With whom a rank sends or receives: as many places on in its group as the captured one."""
        captured = self._captured[self._program.class_of_rank[rank]]
        ranks = collective.ranks
        distance = ranks.index(collective.peer) - ranks.index(captured)
        group = self.group(rank, collective)
        return group[(group.index(rank) + distance) % len(group)]

    def is_of_one_class(self, rank: int, collective: CallCollective) -> bool:
        """Whether all ranks of a group do the same."""
        key = (rank, collective.group)
        if key not in self._are_equal:
            classes = self._program.class_of_rank
            self._are_equal[key] = len({classes[one] for one in self.group(rank, collective)}) == 1
        return self._are_equal[key]

    def members(self, rank: int, collective: CallCollective) -> frozenset[int]:
        """Indices of the simulated ranks that take part in a collective of one of them: those in its group,
        and where none of a class is, those that stand for the class."""
        key = (rank, collective.group)
        if key not in self._members:
            classes = self._program.class_of_rank
            group = self.group(rank, collective)
            inside = {self._index[one] for one in group if one in self._index}
            there = {self.places[index].of_class for index in inside}
            for one in {classes[other] for other in group} - there:
                inside |= {index for index, place in enumerate(self.places) if place.of_class == one}
            self._members[key] = frozenset(inside)
        return self._members[key]

    def index(self, rank: int) -> int:
        """Of a simulated rank."""
        return self._index[rank]
