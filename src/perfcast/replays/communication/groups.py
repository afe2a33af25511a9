"""Which ranks take part in a collective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram
from perfcast.traces.collectives.groups import is_address
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.events import NONE, Collective, ProcessGroup
from perfcast.traces.execution_trace.collectives import read_record
from perfcast.traces.execution_trace.nodes import ExecutionTrace


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """A communicator as all its ranks name it; ``ranks`` are global, in the group's order."""

    ranks: tuple[int, ...]
    name: str


def group_of(collective: Collective, groups: Sequence[ProcessGroup], world_size: int) -> GroupKey:
    """The group of a collective; where the recording does not name its ranks, the only one that fits.

    A collective of gloo does not say its group, and before schema 1.0.3 a group was named by an address.
    There it is taken to be the whole world, unless its size says otherwise and one group has that size.
    """
    named = next((group for group in groups if group.name == collective.group and collective.group), None)
    name = collective.group if named is not None or not is_address(collective.group) else ""
    if collective.ranks:
        return GroupKey(collective.ranks, name)
    if named is not None and named.ranks:
        return GroupKey(named.ranks, name)
    size = collective.group_size or len(collective.in_splits) or world_size
    fitting = [group for group in groups if len(group.ranks) == size]
    if size != world_size and len(fitting) == 1:
        return GroupKey(fitting[0].ranks, fitting[0].name)
    return GroupKey(tuple(range(world_size)), name)


def collectives_in(program: ReplayProgram) -> Iterable[tuple[int, ReplayCall, Collective]]:
    """The collectives of a program that are carried out: index, call, and what is exchanged."""
    for index, call in enumerate(program.calls):
        is_carried_out = call.emulated_seconds != call.emulated_seconds
        if call.kind is CallKind.COLLECTIVE and call.collective is not None and is_carried_out:
            yield index, call, call.collective


def groups_of_program(program: ReplayProgram) -> tuple[GroupKey, ...]:
    """The groups of all collectives that are carried out, each once, in order."""
    found = {
        group_of(collective, program.groups, program.world_size)
        for _, _, collective in collectives_in(program)
    }
    return tuple(sorted(found))


#: Collectives without a root: their records name the rank that recorded them.
_ROOTLESS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def with_place(program: ReplayProgram, execution_trace: ExecutionTrace | None) -> ReplayProgram:
    """The program with the rank and the number of ranks that its collectives tell of.

    A timeline says both; an execution trace alone only through its collectives: NCCL's record of one without
    a root has the rank in its group, and the splits of an all-to-all, one for each rank.
    """
    sizes = [program.world_size]
    for _, _, collective in collectives_in(program):
        sizes += [collective.group_size, len(collective.in_splits), 1 + max(collective.ranks, default=NONE)]
    world_size = max(sizes)
    rank = program.rank
    if rank == 0 and execution_trace is not None:
        rank = _recorded_rank(program, execution_trace, world_size)
    return replace(program, world_size=world_size, rank=rank)


def _recorded_rank(program: ReplayProgram, execution_trace: ExecutionTrace, world_size: int) -> int:
    for node in execution_trace.nodes:
        collective = node.collective
        if collective is None or collective.sequence == NONE:
            continue
        if canonical_name(collective.name) not in _ROOTLESS:
            continue
        record = read_record(node.inputs)
        local = record.place if record is not None else None
        ranks = group_of(collective, program.groups, world_size).ranks
        if local is not None and 0 <= local < len(ranks):
            return ranks[local]
    return program.rank
