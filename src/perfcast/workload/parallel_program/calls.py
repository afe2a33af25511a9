"""Captured nodes → calls on streams, as ``core.work`` has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcast.core.collective import format_ranks, group_ranks, parse_ranks
from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.work import Call, Calls, Stream
from perfcast.workload.parallel_program.capture import ParallelProgram, RankProgram
from perfcast.workload.parallel_program.streams import COMPUTE

#: Words in the names of mesh axes, as programs call them, and the stream of their collectives.
_WORDS: dict[str, Stream] = {
    "tp": Stream.TENSOR, "tensor": Stream.TENSOR, "sp": Stream.TENSOR, "mp": Stream.TENSOR,
    "cp": Stream.CONTEXT, "context": Stream.CONTEXT, "ring": Stream.CONTEXT, "ulysses": Stream.CONTEXT,
    "ep": Stream.EXPERT, "expert": Stream.EXPERT, "experts": Stream.EXPERT,
    "pp": Stream.PIPELINE, "pipeline": Stream.PIPELINE, "pipe": Stream.PIPELINE, "stage": Stream.PIPELINE,
    "dp": Stream.DATA, "data": Stream.DATA, "fsdp": Stream.DATA, "hsdp": Stream.DATA, "ddp": Stream.DATA,
    "shard": Stream.DATA, "replicate": Stream.DATA, "batch": Stream.DATA,
}  # fmt: skip
_POINT_TO_POINT = ("send", "receive")


@dataclass(frozen=True, slots=True)
class CallCollective:
    """With whom a call exchanges: all ranks of a group, or one of them.

    Attributes:
        group: Its ranks, as the captured rank has it, and as ``core.collective.format_ranks`` writes them.
        peer: The other rank of a send or receive, else -1.
    """

    group: str
    peer: int = -1

    @property
    def ranks(self) -> Sequence[int]:
        """Of the group, in its order."""
        return parse_ranks(self.group)


@dataclass(frozen=True)
class RankCalls:
    """What a rank runs.

    Attributes:
        rank: Global rank that was captured.
        calls: In the order of issue.
        lanes: Of each call, the queue that it runs in; calls of one ``Stream`` may run in several.
        phases: Of each call.
        collectives: Of each call, with whom; None for a kernel.
    """

    rank: int
    calls: Calls
    lanes: tuple[str, ...]
    phases: tuple[Phase, ...]
    collectives: tuple[CallCollective | None, ...]


def calls_of(program: ParallelProgram, rank: RankProgram, graph: Graph) -> RankCalls:
    """The calls of a captured rank: nodes that do something, with what they wait for.

    What waits for an allocation waits for what that one stands behind. Sends and receives are between two
    ranks, whatever group they were issued in; other collectives run in all groups of their shape at once.

    Args:
        graph: The rank's own, as a device would run it: the same nodes, other operations.
    """
    streams = rank.streams
    kinds = _stream_kinds(program, rank, graph)
    operations = [_between(operation, rank.rank, program.world_size) for operation in graph.operations]
    partners = [_collective(operation) for operation in graph.operations]
    calls: list[Call] = []
    lanes: list[str] = []
    phases: list[Phase] = []
    collectives: list[CallCollective | None] = []
    ends: list[frozenset[int]] = []  # of each node, the calls after which it has ended
    last: dict[int, int] = {}  # of each stream, its last node
    held_back: dict[int, frozenset[int]] = {}  # of each stream, what the next call on it waits for
    for index, node in enumerate(graph.nodes):
        stream = streams.streams[index]
        waits = frozenset[int]().union(
            held_back.pop(stream, frozenset()), *(ends[other] for other in streams.after[index])
        )
        operation = graph.operations[node.operation]
        if operation.is_free:
            before = ends[last[stream]] if stream in last else frozenset()
            held_back[stream] = waits
            ends.append(before | waits)
            last[stream] = index
            continue
        lane = _lane(streams.names[stream], operation)
        ends.append(frozenset((len(calls),)))
        last[stream] = index
        calls.append(
            Call(
                operations[node.operation],
                kinds[stream],
                tuple(sorted(waits)),
                node.module,
                is_recomputed=node.recomputed,
            )
        )
        lanes.append(lane)
        phases.append(node.phase)
        collectives.append(partners[node.operation])
    return RankCalls(rank.rank, tuple(calls), tuple(lanes), tuple(phases), tuple(collectives))


def _lane(name: str, operation: Operation) -> str:
    """What ``batch_isend_irecv`` issues together goes both ways at once, and to several peers."""
    if operation.name in _POINT_TO_POINT and name.startswith("group"):
        return f"{name} {operation.name} {operation.attribute('peer')}"
    return name


def _between(operation: Operation, rank: int, world_size: int) -> Operation:
    """A collective as it is priced."""
    if operation.kind is not OperationKind.COLLECTIVE:
        return operation
    facts = dict(operation.attributes)
    size = len(group_ranks(operation))
    if "peer" in facts:
        low, high = sorted((rank, int(facts["peer"])))
        facts |= {"ranks": format_ranks((low, high)), "group_size": 2}
    facts["num_groups"] = max(world_size // size, 1)
    return replace(operation, attributes=tuple(sorted(facts.items())))


def _collective(operation: Operation) -> CallCollective | None:
    if operation.kind is not OperationKind.COLLECTIVE:
        return None
    peer = operation.attribute("peer")
    return CallCollective(str(operation.attribute("ranks")), -1 if peer is None else int(peer))


# ---- which axis a stream serves ----------------------------------------------------------------------


def _stream_kinds(program: ParallelProgram, rank: RankProgram, graph: Graph) -> list[Stream]:
    """Of each stream of a rank, what it is for: by the name of its mesh axis, else by what runs on it."""
    names, found = rank.streams.names, dict[int, set[str]]()
    groups = dict[int, Sequence[int]]()
    for node, stream in zip(graph.nodes, rank.streams.streams, strict=True):
        operation = graph.operations[node.operation]
        if operation.kind is OperationKind.COLLECTIVE:
            found.setdefault(stream, set()).add(operation.name)
            groups[stream] = group_ranks(operation)
    kinds = []
    for index, name in enumerate(names):
        if name == COMPUTE:
            kinds.append(Stream.COMPUTE)
        elif index in groups:
            kinds.append(
                _kind_of_group(program, groups[index], found[index], name in rank.streams.functional)
            )
        else:
            kinds.append(Stream.COPY)
    return kinds


def _kind_of_group(
    program: ParallelProgram, ranks: Sequence[int], operations: set[str], is_functional: bool
) -> Stream:
    named = _kind_by_name(program, ranks)
    if named is not None:
        return named
    if operations & set(_POINT_TO_POINT):
        return Stream.PIPELINE
    if "all_to_all" in operations:
        return Stream.EXPERT
    return Stream.TENSOR if is_functional else Stream.DATA


def _kind_by_name(program: ParallelProgram, ranks: Sequence[int]) -> Stream | None:
    """By the description of the group of rank 0 of which this one is a translate."""
    shape = [one - min(ranks) for one in ranks]
    for description, group in program.groups:
        if [one - min(group) for one in group] == shape:
            for word in re.split(r"[^a-z]+", description.lower()):
                if word in _WORDS:
                    return _WORDS[word]
    return None
