"""What Chakra traces hold, at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfcast.errors import PlanError, TraceError
from perfcast.traces.chakra.astra_sim import objections
from perfcast.traces.chakra.order import longest_path, missing_dependencies
from perfcast.traces.chakra.play import play_workload
from perfcast.traces.chakra.trace import ChakraTrace, ChakraWorkload, CollectiveType, NodeType
from perfcast.units import MICRO


@dataclass(frozen=True)
class ChakraSummary:
    """One rank.

    Attributes:
        num_nodes_by_type: By the names of ``NodeType``, smaller letters.
        num_collectives_by_type: By the names of ``CollectiveType``.
        num_messages_by_type: Sends and receives, by the names of ``NodeType``.
        num_unknown_sizes: Collectives (barriers aside) and messages that do not say how large they are.
        num_missing: Dependencies on nodes that are not in the file.
        node_seconds: Of all nodes, as if none ran beside another.
        longest_path_seconds: Along the dependencies.
        measured_seconds: Of the recording that it was made from, where it was.
    """

    source: str
    rank: int
    version: str
    num_nodes: int
    num_nodes_by_type: Mapping[str, int]
    num_collectives_by_type: Mapping[str, int]
    num_dependencies: int
    num_missing: int
    communication_bytes: int
    node_seconds: float
    longest_path_seconds: float
    measured_seconds: float | None = None
    num_messages_by_type: Mapping[str, int] = field(default_factory=dict)
    num_unknown_sizes: int = 0


@dataclass(frozen=True)
class WorkloadSummary:
    """All ranks.

    Attributes:
        groups: Process groups beside that of all ranks.
        together_seconds: Until the last rank has ended, where collectives start with their last member; None
            where the ranks' collectives do not fit together (``problem`` says why).
        objections: What ASTRA-sim would stumble over; the first few.
    """

    ranks: tuple[ChakraSummary, ...]
    groups: Mapping[str, tuple[int, ...]]
    together_seconds: float | None
    problem: str
    objections: tuple[str, ...]
    num_objections: int


_SHOWN_OBJECTIONS = 5


def summarize_workload(workload: ChakraWorkload, measured_seconds: Sequence[float] = ()) -> WorkloadSummary:
    """What the traces of some ranks hold."""
    measured = dict(zip((trace.rank for trace in workload.traces), measured_seconds, strict=False))
    ranks = tuple(_summary(trace, measured.get(trace.rank)) for trace in workload.traces)
    together, problem = None, ""
    try:
        together = max(play_workload(workload).end_seconds, default=0.0)
    except (TraceError, PlanError) as error:
        problem = str(error)
    found = objections(workload)
    groups = {group.name: group.ranks for group in workload.groups}
    return WorkloadSummary(ranks, groups, together, problem, found[:_SHOWN_OBJECTIONS], len(found))


def _summary(trace: ChakraTrace, measured_seconds: float | None) -> ChakraSummary:
    collectives = [node for node in trace.nodes if node.type == NodeType.COLLECTIVE]
    messages = [node for node in trace.nodes if node.type in (NodeType.SEND, NodeType.RECEIVE)]
    sent = [node for node in messages if node.type == NodeType.SEND]
    sized = [n for n in collectives if n.number("comm_type", -1) != CollectiveType.BARRIER] + messages
    return ChakraSummary(
        trace.source,
        trace.rank,
        trace.version,
        len(trace.nodes),
        _counted(NodeType, [node.type for node in trace.nodes]),
        _counted(CollectiveType, [node.number("comm_type", -1) for node in collectives]),
        sum(len(node.data_deps) for node in trace.nodes),
        len(missing_dependencies(trace)),
        sum(max(0, node.number("comm_size")) for node in (*collectives, *sent)),
        trace.seconds,
        longest_path(trace).micros * MICRO,
        measured_seconds,
        _counted(NodeType, [node.type for node in messages]),
        sum(node.number("comm_size") <= 0 for node in sized),
    )


def _counted(kind: type[NodeType] | type[CollectiveType], numbers: Sequence[int]) -> dict[str, int]:
    known = {int(member): member.name.lower() for member in kind}
    return dict(sorted(Counter(known.get(int(n), f"unknown ({int(n)})") for n in numbers).items()))
