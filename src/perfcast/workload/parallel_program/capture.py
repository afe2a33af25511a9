"""A parallel program: what each of its differing ranks does in a step, captured in this process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from perfcast.core.collective import format_ranks, group_ranks
from perfcast.core.graph import Graph
from perfcast.core.operation import Operation, OperationKind
from perfcast.errors import InputError
from perfcast.workload.capture.capture import CaptureOptions
from perfcast.workload.parallel_program.classes import (
    Axis,
    Prints,
    RankClasses,
    axes_of,
    find_classes,
    find_classes_of_all,
)
from perfcast.workload.parallel_program.shards import part_shape
from perfcast.workload.parallel_program.streams import StreamPlan
from perfcast.workload.parallel_program.virtual_ranks import RankCapture, RankCaptures
from perfcast.workload.step import Program


@dataclass(frozen=True)
class RankProgram:
    """What a rank does, which stands for all that do the same.

    Attributes:
        rank: Global rank that was captured.
        num_equal: Ranks that do the same, it too.
        graph: Its nodes, in program order.
        streams: Where they run, and what they wait for there.
        program: As it was built.
    """

    rank: int
    num_equal: int
    graph: Graph
    streams: StreamPlan
    program: Program


@dataclass(frozen=True)
class ParallelProgram:
    """All ranks of a program.

    Attributes:
        ranks: Those that differ, by rising rank.
        class_of_rank: Of each rank of the world, the index into ``ranks`` of the one that stands for it.
        axes: Along which ranks were compared, the innermost first.
        groups: Ranks of each group that rank 0 is in, with the group's own description ('mesh_tp').
        num_captured: Ranks that were captured to find those that differ.
    """

    world_size: int
    ranks: tuple[RankProgram, ...]
    class_of_rank: tuple[int, ...]
    axes: tuple[Axis, ...]
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    num_captured: int

    @property
    def flops(self) -> int:
        """Model flops of a step, over all ranks."""
        return sum(rank.num_equal * rank.graph.flops for rank in self.ranks)

    @property
    def recompute_flops(self) -> int:
        """What is computed twice, over all ranks."""
        return sum(rank.num_equal * rank.graph.recompute_flops for rank in self.ranks)


def capture_parallel_program(
    build: Callable[[], Program], options: CaptureOptions, world_size: int, *, captures_all: bool = False
) -> ParallelProgram:
    """Capture the ranks of a program that differ, each once.

    Which ranks are taken to do the same is said in ``parallel_program_classes``.

    Args:
        build: As for ``capture_on_virtual_rank``.
        captures_all: Capture every rank and compare them all, which small worlds can afford.

    Raises:
        CaptureError: The program raised, its control flow depends on values, or it hears from other ranks
            what it needs to know.
        InputError: A world of no ranks.
    """
    if world_size < 1:
        raise InputError(f"a world of {world_size} ranks: at least 1")
    captures = RankCaptures(build, options, world_size)
    captured: dict[int, RankCapture] = {}
    numbers = _Numbers()

    def step(rank: int) -> Hashable:
        captured[rank] = captures.capture(rank)
        return numbers.of(_fingerprint(rank, captured[rank], numbers))

    def parameters(rank: int) -> Hashable:
        return tuple(part_shape(sharding, rank) for sharding in first.shardings)

    first = captures.capture(0)
    axes = axes_of([ranks for _, ranks in first.groups], world_size)
    if captures_all:
        classes = find_classes_of_all(world_size, step)
    else:
        sends = [_sends_along(axis, first.graph) for axis in axes]
        classes = find_classes(axes, world_size, Prints(step, parameters), sends)
    return ParallelProgram(
        world_size, _rank_programs(classes, captured), classes.of_rank, axes, first.groups, len(captured)
    )


def _sends_along(axis: Axis, graph: Graph) -> bool:
    """Whether rank 0 sends a message to, or receives one from, a rank that differs in an axis' coordinate."""
    peers = [operation.attribute("peer") for operation in graph.operations]
    return any(int(peer) // axis.stride % axis.size for peer in peers if peer is not None)


def _rank_programs(classes: RankClasses, captured: dict[int, RankCapture]) -> tuple[RankProgram, ...]:
    return tuple(
        RankProgram(rank, count, captured[rank].graph, captured[rank].streams, captured[rank].program)
        for rank, count in zip(classes.representatives, classes.counts, strict=True)
    )


# ---- what makes ranks equal --------------------------------------------------------------------------


class _Numbers(dict[Hashable, int]):
    """A number for each different thing, so that long sequences of them compare fast."""

    def of(self, value: Hashable) -> int:
        return self.setdefault(value, len(self))


def _fingerprint(rank: int, capture: RankCapture, numbers: _Numbers) -> Hashable:
    """All that a capture says of a rank, up to translation of its groups."""
    graph, streams = capture.graph, capture.streams
    operations = [numbers.of(translated(operation, rank)) for operation in graph.operations]
    queues = _unnamed(streams)
    return tuple(
        (operations[node.operation], node.phase, node.module, node.recomputed, queue, after)
        for node, queue, after in zip(graph.nodes, queues, streams.after, strict=True)
    )


def _unnamed(streams: StreamPlan) -> list[int]:
    """Streams numbered by their first use: names hold ranks."""
    order: dict[int, int] = {}
    return [order.setdefault(stream, len(order)) for stream in streams.streams]


def translated(operation: Operation, rank: int) -> Operation:
    """An operation as any rank that does the same would have it.

    A group is moved so that it begins at rank 0; a peer is the number of places after this rank in the
    group, counted around.
    """
    if operation.kind is not OperationKind.COLLECTIVE:
        return operation
    facts = dict(operation.attributes)
    ranks = list(group_ranks(operation))
    facts["ranks"] = format_ranks([one - min(ranks) for one in ranks])
    if "peer" in facts:
        facts["peer"] = (ranks.index(int(facts["peer"])) - ranks.index(rank)) % len(ranks)
    return replace(operation, attributes=tuple(sorted(facts.items())))
