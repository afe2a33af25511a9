"""A forecast of a step under a plan as Chakra traces of its ranks.

The step is played as a forecast plays it (``simulate.pipeline``); its tasks are written out into the calls of
their layers. Ranks of one pipeline stage do the same: each stage is laid out once and written for each of its
ranks, with that rank's groups and neighbours. Calls depend on what stands before them on their stream and on
what they wait for; messages between stages are a send and a receive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.operation import Operation
from perfcast.core.plans.placement import group_of
from perfcast.errors import PlanError
from perfcast.prediction.step.priced import PricedStep
from perfcast.simulate.training import PlayedStep
from perfcast.traces.chakra.collectives import (
    COLLECTIVE_TYPES,
    WORLD,
    CommunicationNode,
    communication_attributes,
    node_type,
    number_groups,
)
from perfcast.traces.chakra.plan_stages import LaidNode, StageLayout
from perfcast.traces.chakra.schedule import Planned, build_chakra
from perfcast.traces.chakra.trace import ChakraAttribute, ChakraGroup, ChakraTrace, ChakraWorkload, NodeType

#: Nodes of all ranks that are written at most; beyond, only the ranks that stand for their stages are.
MAX_NODES = 2_000_000


def chakra_from_step(priced: PricedStep, *, with_waits: bool = True) -> ChakraWorkload:
    """A step under a plan as it was played: every rank, or one of each stage where that would be too much.

    Args:
        with_waits: Whether waiting for other stages is written; see ``schedule.build_chakra``.

    Raises:
        PlanError: Decoding, whose rounds overlap; an operation without a price; numbers for which the
            schedule does not exist.
    """
    step = priced.planned.step
    if step.mode == "decode":
        raise PlanError("a Chakra trace of decoding: its rounds overlap, none is one graph; take prefill")
    return chakra_from_played(
        priced.played,
        fixed_seconds=step.timer.fixed_seconds,
        source=step.model.name,
        with_waits=with_waits,
    )


def chakra_from_played(
    played: PlayedStep, *, fixed_seconds: float = 0.0, source: str = "plan", with_waits: bool = True
) -> ChakraWorkload:
    """``chakra_from_step`` of a played step alone.

    Args:
        fixed_seconds: Of every step, beside its work.
        source: The model's name.
    """
    work = played.work
    stages = [
        StageLayout(work, played.times, played.built, played.played, stage).lay()
        for stage in range(len(work.stages))
    ]
    world = range(work.plan.world_size)
    firsts = group_of(work.plan, "pipeline")
    members = group_of(work.plan, "stage")
    ranks = [(first + member, stage) for stage, first in enumerate(firsts) for member in members]
    notes: tuple[str, ...] = ()
    if len(members) * sum(map(len, stages)) > MAX_NODES:
        ranks = [(first, stage) for stage, first in enumerate(firsts)]
        notes = (
            f"only ranks {', '.join(map(str, firsts))}, one of each stage, are written: all are too many",
        )
    groups = _Groups(stages, world)
    stride = firsts[1] - firsts[0] if len(firsts) > 1 else 0
    traces = tuple(
        _written(stages[stage], rank, stage, stride, groups, fixed_seconds, source, with_waits)
        for rank, stage in sorted(ranks)
    )
    return ChakraWorkload(traces, groups.all, notes)


class _Groups:
    """Process groups of all collectives: those of other ranks are translates of the first one's."""

    def __init__(self, stages: Sequence[Sequence[LaidNode]], world: Sequence[int]) -> None:
        bases = {
            tuple(group_ranks(one.operation))
            for nodes in stages
            for one in nodes
            if one.operation is not None and _is_communication(one.operation)
        }
        self._of: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        for base in bases:
            self._of |= {((base), rank): group for group in _translates(base, world) for rank in group}
        self._numbers, self.all = number_groups((("", group) for group in self._of.values()), world)

    def name(self, operation: Operation, rank: int) -> str:
        """Of the group in which a rank runs a collective."""
        group = self._of.get((tuple(group_ranks(operation)), rank), ())
        return self._numbers.get(group, WORLD)

    def with_rank(self, rank: int) -> tuple[ChakraGroup, ...]:
        """Groups that a rank is in."""
        return tuple(group for group in self.all if rank in group.ranks)


def _translates(base: tuple[int, ...], world: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """A group and its shifts, so that each rank is in one; those that leave the world are none."""
    taken: set[int] = set()
    offsets = [rank - base[0] for rank in base]
    for rank in world:
        group = tuple(rank + offset for offset in offsets)
        if rank not in taken and group[-1] in world:
            taken |= set(group)
            yield group


def _is_communication(operation: Operation) -> bool:
    return operation.name in COLLECTIVE_TYPES


def _put_in_bytes(operation: Operation) -> int:
    """What one rank puts in; of an all-gather, its part of what all receive."""
    num_bytes = message_bytes(operation)
    return num_bytes // len(group_ranks(operation)) if operation.name == "all_gather" else num_bytes


def _written(
    nodes: Sequence[LaidNode],
    rank: int,
    stage: int,
    stride: int,
    groups: _Groups,
    fixed_seconds: float,
    source: str,
    with_waits: bool,
) -> ChakraTrace:
    planned = [_planned(one, rank, stage, stride, groups) for one in nodes]
    if fixed_seconds:
        end = max((one.end_seconds for one in planned), default=0.0)
        last = tuple(place for place, one in enumerate(planned) if one.end_seconds == end)
        planned.append(Planned("fixed part of every step", end, end + fixed_seconds, last, is_on_host=True))
    return build_chakra(source, rank, planned, groups.with_rank(rank), with_waits=with_waits)


def _planned(one: LaidNode, rank: int, stage: int, stride: int, groups: _Groups) -> Planned:
    attributes: list[ChakraAttribute] = []
    collective = None
    if one.operation is not None and _is_communication(one.operation):
        size = max(1, round(_put_in_bytes(one.operation) * one.runs))
        collective = CommunicationNode(one.operation.name, size, groups.name(one.operation, rank))
    elif one.message and one.operation is not None:
        peer = rank + (one.target - stage) * stride
        collective = CommunicationNode(one.message, message_bytes(one.operation), peer=peer, tag=one.tag)
    elif one.operation is not None:
        flops, traffic = one.operation.flops, one.operation.memory_traffic_bytes
        attributes.append(ChakraAttribute("num_ops", "int64", round(flops * one.runs)))
        attributes.append(ChakraAttribute("tensor_size", "uint64", round(traffic * one.runs)))
    if collective is not None:
        attributes += communication_attributes(collective, rank)
    if one.module:
        attributes.append(ChakraAttribute("module", "string", one.module))
    return Planned(
        one.name, one.start, one.end, one.after,
        NodeType.COMPUTE if collective is None else node_type(collective), one.is_on_host,
        0.0 if one.message == "receive" else None, attributes=tuple(attributes),
    )  # fmt: skip
