"""Recordings as Chakra traces: host, streams, waits and collectives as nodes whose longest path is the step.

The host's chains of operators, the works of each stream in order, and what waits for what are those of
``timeline.ranks``; all ranks are played together on one clock, and
what ran when becomes nodes. A collective starts with its last member and takes as long as the shortest
recorded one; what a rank stood in it before is a gap. A launch that is under way when its kernel starts is
cut there. Messages that one kernel carries out together are nodes of its time each, side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from perfcast.traces.chakra.collectives import (
    COLLECTIVE_TYPES,
    WORLD,
    CommunicationNode,
    communication_attributes,
    node_type,
    number_groups,
)
from perfcast.traces.chakra.operators import OperatorDetails
from perfcast.traces.chakra.schedule import GAP, Planned, build_chakra
from perfcast.traces.chakra.trace import ChakraAttribute, ChakraGroup, ChakraTrace, ChakraWorkload, NodeType
from perfcast.traces.collectives.recorded import recorded_collectives
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE, Collective, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.timeline.play import RankTimeline, play_ranks
from perfcast.traces.timeline.program import HostPiece, Overhead, RankProgram
from perfcast.traces.timeline.ranks import build_ranks


@dataclass(frozen=True)
class TracedWorkload:
    """The nodes of all ranks beside what was recorded.

    Attributes:
        measured_seconds: Of each rank, as recorded: from the first chosen step's start until the last one and
            all device work of the steps had ended.
    """

    workload: ChakraWorkload
    measured_seconds: tuple[float, ...]


def chakra_from_traces(
    traces: Sequence[Trace],
    execution_traces: Sequence[ExecutionTrace | None] = (),
    *,
    step_numbers: Sequence[int] | None = None,
    with_waits: bool = True,
) -> TracedWorkload:
    """One Chakra trace for each recorded rank.

    Args:
        traces: Timelines, one for each rank.
        execution_traces: Of the same ranks in the same order, where there are some: they say what operators
            were called with, and how large collectives are where the timeline does not.
        step_numbers: Marked steps to take, which follow each other; None takes all.
        with_waits: Whether a rank's waiting for others is written; see ``build_chakra``.

    Raises:
        TraceError: Nothing ran on a host; files that do not belong together; ranks recorded apart.
    """
    programs = build_ranks(traces, step_numbers)
    played = play_ranks(programs).ranks
    described = list(execution_traces) or [None] * len(traces)
    details = [OperatorDetails.of(t, e) for t, e in zip(traces, described, strict=True)]
    collectives = _Collectives.of(traces, programs, details)
    found = tuple(
        _Rank(trace, program, times, collectives.of_rank(place), details[place]).finish(
            collectives.groups_of(trace.rank), with_waits
        )
        for place, (trace, program, times) in enumerate(zip(traces, programs, played, strict=True))
    )
    measured = tuple(
        _measured(trace, program, step_numbers) for trace, program in zip(traces, programs, strict=True)
    )
    return TracedWorkload(ChakraWorkload(found, collectives.groups), measured)


def _measured(trace: Trace, program: RankProgram, step_numbers: Sequence[int] | None) -> float:
    """From the first step's start until the last step and all works of the steps had ended, as recorded."""
    steps = [s for s in trace.steps if step_numbers is None or s.number in step_numbers]
    start = steps[0].start_seconds if steps else program.pieces[0].span[0]
    end = steps[-1].end_seconds if steps else start + sum(program.measured_seconds)
    works = max((float(trace.events.end_seconds[work.row]) for work in program.works), default=end)
    return max(end, works) - start


@dataclass(frozen=True)
class _Collectives:
    """The collective that each work is, by rank and the work's place; and all groups."""

    works: tuple[Mapping[int, Sequence[CommunicationNode]], ...]
    groups: tuple[ChakraGroup, ...]

    @classmethod
    def of(
        cls, traces: Sequence[Trace], programs: Sequence[RankProgram], details: Sequence[OperatorDetails]
    ) -> _Collectives:
        """Sizes are made equal over the ranks of an instance: the largest counts."""
        world = range(max(traces[0].world_size, len(traces)))
        found = [
            _collectives(trace, program, detail)
            for trace, program, detail in zip(traces, programs, details, strict=True)
        ]
        members = [(c.group, c.ranks) for by_work in found for part in by_work.values() for c in part]
        numbers, groups = number_groups(members, world)
        largest: dict[_Instance, int] = {}
        named = []
        for trace, program, by_work in zip(traces, programs, found, strict=True):
            nodes = {
                work: [_node(collective, numbers) for collective in part] for work, part in by_work.items()
            }
            instances = _instances(trace.rank, program, by_work, nodes)
            named.append((nodes, instances))
            for (work, place), instance in instances.items():
                largest[instance] = max(largest.get(instance, 0), nodes[work][place].input_bytes)
        for nodes, instances in named:
            for (work, place), instance in instances.items():
                nodes[work][place] = replace(nodes[work][place], input_bytes=largest[instance])
        return cls(tuple(nodes for nodes, _ in named), groups)

    def of_rank(self, place: int) -> Mapping[int, Sequence[CommunicationNode]]:
        """Collectives of one rank, by the places of its works."""
        return self.works[place]

    def groups_of(self, rank: int) -> tuple[ChakraGroup, ...]:
        """Groups that a rank is in."""
        return tuple(group for group in self.groups if rank in group.ranks)


#: What makes parts of several ranks one: its name, or sender, receiver, tag and place of a message.
_Instance = tuple[object, ...]


def _instances(
    rank: int,
    program: RankProgram,
    by_work: Mapping[int, Sequence[Collective]],
    nodes: Mapping[int, Sequence[CommunicationNode]],
) -> dict[tuple[int, int], _Instance]:
    """By work and place among its parts: what it is one with; messages by their place on their way."""
    parts = [(work, place, one) for work, part in by_work.items() for place, one in enumerate(part)]
    places: Counter[tuple[int, int, int]] = Counter()
    found: dict[tuple[int, int], _Instance] = {}
    for work, place, one in sorted(parts, key=lambda part: part[2].row):
        message = one.message(rank) if one.is_message else None
        instance = program.works[work].collective
        if message is not None:
            found[work, place] = ("message", *message, places[message])
            places[message] += 1
        elif instance and len(nodes[work]) == 1:
            found[work, place] = ("collective", instance)
    return found


def _collectives(
    trace: Trace, program: RankProgram, details: OperatorDetails
) -> dict[int, tuple[Collective, ...]]:
    """What each work exchanges, by the work itself, by what asked for it, or by the execution trace."""
    rows = {work.row: place for place, work in enumerate(program.works)}
    found: dict[int, tuple[Collective, ...]] = {}
    for part in recorded_collectives(trace):
        for row in part.work_rows:
            own = trace.collective_by_row.get(row, part.collective)
            nearest = own if own.in_elements else part.collective
            if row not in rows:
                continue
            fuller = details.fuller(nearest, part.host_row)
            asked = part.collective
            if asked.is_message:
                fuller = replace(fuller, name=asked.name, peer=asked.peer, tag=asked.tag)
                before = found.get(rows[row], ())
                found[rows[row]] = (*before, replace(fuller, row=asked.row))
            elif canonical_name(fuller.name) in COLLECTIVE_TYPES or fuller.is_message:
                found[rows[row]] = (fuller,)
    return found


def _node(collective: Collective, numbers: Mapping[tuple[int, ...], str]) -> CommunicationNode:
    name = canonical_name(collective.name)
    num_bytes = (collective.in_elements or collective.out_elements) * dtype_bytes(collective.dtype)
    if collective.is_message:
        return CommunicationNode(name, num_bytes, peer=collective.peer, tag=collective.tag)
    return CommunicationNode(name, num_bytes, numbers.get(collective.ranks, WORLD))


@dataclass
class _Draft:
    """A node that is being planned."""

    name: str
    start: float
    end: float
    after: list[int]
    is_on_host: bool = True
    row: int = NONE
    work: int = NONE
    overhead: str = ""
    part: int = 0


@dataclass
class _Rank:
    """Plans one rank's nodes.

    Attributes:
        last: Of each chain, the node before the next piece and the works that the next piece awaits.
        issued: Of each work, the nodes of the host that its launch stands behind, and works likewise.
        beside: Of a work's node, those of the other messages that it carries out.
    """

    trace: Trace
    program: RankProgram
    times: RankTimeline
    collectives: Mapping[int, Sequence[CommunicationNode]]
    details: OperatorDetails
    drafts: list[_Draft] = field(default_factory=list)
    last: dict[int, list[int]] = field(default_factory=dict)
    awaited: dict[int, list[int]] = field(default_factory=dict)
    of_piece: dict[int, list[int]] = field(default_factory=dict)
    issued: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    beside: dict[int, list[int]] = field(default_factory=dict)

    def finish(self, groups: Sequence[ChakraGroup], with_waits: bool) -> ChakraTrace:
        """The rank's trace."""
        waits: list[tuple[int, list[int]]] = []
        for place, piece in enumerate(self.program.pieces):
            self._add_piece(place, piece, waits)
        for chain, works in self.awaited.items():
            if works:
                moment = max(self.times.work_ends[work] for work in works)
                waits.append((len(self.drafts), works))
                self.drafts.append(_Draft("wait", moment, moment, list(self.last[chain])))
        first_work = len(self.drafts)
        self._add_works(first_work)
        for node, works in waits:
            self.drafts[node].after += [first_work + work for work in works]
        self._add_messages(first_work)
        if not with_waits:
            self._add_start()
        planned = [self._planned(draft) for draft in self.drafts]
        return build_chakra(self.trace.source, self.trace.rank, planned, groups, with_waits=with_waits)

    def _add_start(self) -> None:
        """Ranks that are played together start on one clock, some later than others."""
        roots = [draft for draft in self.drafts if not draft.after]
        for draft in roots:
            draft.after.append(len(self.drafts))
        self.drafts.append(_Draft("start", 0.0, 0.0, []))

    def _add_piece(self, place: int, piece: HostPiece, waits: list[tuple[int, list[int]]]) -> None:
        """A piece in as many nodes as launches in it take effect before it ends; none if it takes no time."""
        chain = piece.chain
        start, end = self.times.piece_starts[place], self.times.piece_ends[place]
        before = self.last.setdefault(chain, [])
        pending = self.awaited.setdefault(chain, [])
        pending += piece.awaits
        if piece.after != NONE:
            self.last[chain] = before = [*before, *self.of_piece[piece.after]]
        if end <= start:
            for work in piece.launches:
                self.issued[work] = (list(before), list(pending))
            self.of_piece[place] = list(before)
            return
        moments = {work: self._ready(work, start) for work in piece.launches}
        for work in [work for work, moment in moments.items() if moment <= start]:
            self.issued[work] = (list(before), list(pending))
        cuts = sorted({moment for moment in moments.values() if start < moment < end})
        for low, high in pairwise([start, *cuts, end]):
            node = len(self.drafts)
            self.drafts.append(self._host_draft(piece, low, high, list(self.last[chain]), low == start))
            if pending:
                waits.append((node, list(pending)))
                pending.clear()
            self.last[chain] = [node]
            for work, moment in moments.items():
                if low < moment <= high or (high == end and moment > high):
                    self.issued[work] = ([node], [])
        self.of_piece[place] = list(self.last[chain])

    def _host_draft(
        self, piece: HostPiece, start: float, end: float, after: list[int], is_first: bool
    ) -> _Draft:
        row = piece.row if is_first else NONE
        if piece.overhead is Overhead.BETWEEN:
            return _Draft(f"{GAP} before {piece.key[-1]}", start, end, after, overhead=piece.overhead.value)
        return _Draft(piece.key[0], start, end, after, row=row, overhead=piece.overhead.value)

    def _ready(self, work: int, issued: float) -> float:
        """When a launch takes effect: a work does not start before."""
        return min(issued + self.program.works[work].lead_seconds, self._work_start(work))

    def _work_start(self, work: int) -> float:
        times = self.times
        return max(times.work_starts[work], times.work_ends[work] - times.work_seconds[work])

    def _add_works(self, first_work: int) -> None:
        before: dict[int, int] = {}
        for place, work in enumerate(self.program.works):
            nodes, works = self.issued.get(place, ([], []))
            after = [*nodes, *(first_work + other for other in (*works, *work.awaits))]
            if work.stream in before:
                after.append(before[work.stream])
            before[work.stream] = first_work + place
            self.drafts.append(
                _Draft(
                    work.name,
                    self._work_start(place),
                    self.times.work_ends[place],
                    after,
                    False,
                    work.operator,
                    place,
                )
            )

    def _add_messages(self, first_work: int) -> None:
        """Nodes for all but the first of messages that one work carries out; who waits for one, for all."""
        for work, nodes in sorted(self.collectives.items()):
            for part in range(1, len(nodes)):
                self.beside.setdefault(first_work + work, []).append(len(self.drafts))
                first = self.drafts[first_work + work]
                self.drafts.append(replace(first, after=list(first.after), part=part))
        if self.beside:
            for draft in self.drafts:
                draft.after += [other for one in draft.after for other in self.beside.get(one, ())]

    def _planned(self, draft: _Draft) -> Planned:
        if draft.work != NONE:
            return self._planned_work(draft)
        inputs, outputs = self.details.tensors(draft.row)
        kind = ChakraAttribute("host_time", "string", draft.overhead)
        return Planned(
            draft.name,
            draft.start,
            draft.end,
            tuple(draft.after),
            is_on_host=True,
            inputs=inputs,
            outputs=outputs,
            attributes=(*self.details.attributes(draft.row), kind),
        )

    def _planned_work(self, draft: _Draft) -> Planned:
        work = self.program.works[draft.work]
        collective = next(iter(self.collectives.get(draft.work, ())[draft.part :]), None)
        attributes = [ChakraAttribute("stream", "string", self.program.streams[work.stream])]
        if work.operator != NONE:
            attributes.append(ChakraAttribute("operator", "string", self.trace.events.name(work.operator)))
        if collective is not None:
            attributes += communication_attributes(collective, self.trace.rank)
        return Planned(
            draft.name,
            draft.start,
            draft.end,
            tuple(draft.after),
            node_type(collective) if collective is not None else NodeType.COMPUTE,
            ready_seconds=self.times.work_ready[draft.work] if work.collective else None,
            attributes=tuple(attributes),
        )
