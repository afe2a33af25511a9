"""A step by the cost model: operators by their fitted lines, memory whole, collectives along their axes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.interval import join_intervals
from perfcast.cost.model import CostModel, Estimates
from perfcast.errors import PlanError
from perfcast.memory_use.operators import OperatorMemory, operator_memory
from perfcast.published.comparison import print_part
from perfcast.published.mesh_cost_model.axes import Mesh

#: Collectives between stages, in which ranks wait for each other: the cost model has no words for that.
_BETWEEN_STAGES = ("send", "receive")


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Runs of operations of one name in one phase.

    Attributes:
        seconds: Of all runs together.
        bound_by: What bounds most of that time: 'compute', 'memory' or 'launch'.
        provenance: How most of it was priced.
        whole_bytes: Inputs, outputs and temporaries of the largest run.
        kept_bytes: What all runs together keep for the backward.
    """

    name: str
    phase: str
    runs: int
    seconds: float
    bound_by: str
    provenance: str
    whole_bytes: int
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """Runs of a collective along an axis.

    Attributes:
        num_bytes: Of the full buffers of all runs.
        seconds: Of all runs together on this axis.
    """

    collective: str
    axis: str
    runs: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MeshCost:
    """What the cost model says of one step.

    Attributes:
        step_seconds: Operators and then communication, one after the other.
        step_seconds_low, step_seconds_high: Interval. Where collectives run beside operators, the low end is
            that of the longer of both.
        peak_memory_bytes: The largest sum of what is alive.
        largest_operator: Index of the node that touches most, into ``memory``; -1 of an empty graph.
        memory: Of each node of the graph.
    """

    operator_seconds: float
    communication_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    peak_memory_bytes: int
    largest_operator: int
    operators: tuple[OperatorCost, ...]
    collectives: tuple[CollectiveCost, ...]
    memory: tuple[OperatorMemory, ...]

    @property
    def step_seconds(self) -> float:
        """Operators and communication."""
        return self.operator_seconds + self.communication_seconds


def estimate_step(
    graph: Graph,
    device: Device,
    lines: CostModel,
    mesh: Mesh,
    *,
    overlaps: bool = False,
    crowding: float = 1.0,
) -> MeshCost:
    """Price a graph: operators by the fitted lines, collectives by the axes that their ranks span.

    Args:
        graph: Of one rank, which stands for all.
        overlaps: Whether the program lets collectives run beside operators.
        crowding: Ranks' threads for each core, at least 1: operators of ranks that take turns on a core last
            so many times as long, but for the low end, as ranks that wait leave it to others.

    Raises:
        PlanError: A collective over ranks that are no group along the mesh's axes, between stages, or of a
            kind that was not profiled.
    """
    runs = Counter(node.operation for node in graph.nodes)
    compute = [index for index in runs if graph.operations[index].kind is not OperationKind.COLLECTIVE]
    operations = [graph.operations[index] for index in compute]
    alone = lines.estimate(operations, device)
    estimates = replace(alone, seconds=alone.seconds * crowding, seconds_high=alone.seconds_high * crowding)
    counts = np.array([runs[index] for index in compute], dtype=np.float64)
    names = [operation.name for operation in operations]
    low, high = join_intervals(alone, counts, names)[0], join_intervals(estimates, counts, names)[1]
    memory = operator_memory(graph)
    operator_seconds = float(estimates.seconds @ counts)
    sent = _Sent()
    for index, operation in enumerate(graph.operations):
        if operation.kind is OperationKind.COLLECTIVE and runs[index]:
            sent.add(operation, runs[index], mesh)
    return MeshCost(
        operator_seconds=operator_seconds,
        communication_seconds=sent.seconds,
        step_seconds_low=max(low, sent.low) if overlaps else low + sent.low,
        step_seconds_high=high + sent.high,
        peak_memory_bytes=max((one.live_bytes for one in memory), default=0),
        largest_operator=int(np.argmax([one.whole_bytes for one in memory])) if memory else -1,
        operators=_operators(graph, dict(zip(compute, range(len(compute)), strict=True)), estimates, memory),
        collectives=tuple(sent.costs.values()),
        memory=memory,
    )


class _Sent:
    """Collectives along axes, added up."""

    def __init__(self) -> None:
        self.seconds = self.low = self.high = 0.0
        self.costs: dict[tuple[str, str], CollectiveCost] = {}

    def add(self, operation: Operation, runs: int, mesh: Mesh) -> None:
        """So many runs of a collective.

        Raises:
            PlanError: As of ``estimate_step``.
        """
        group, name = group_ranks(operation), operation.name
        if name in _BETWEEN_STAGES:
            raise PlanError(
                f"the program sends between stages ({name}), where ranks wait for each other; this cost "
                "model adds up one rank's work: forecast it with `perfcast predict --cluster`"
            )
        num_bytes = message_bytes(operation)
        if name == "barrier" or len(set(group)) == 1:
            return
        for one in mesh.seconds(name, num_bytes, group):
            seconds = runs * one.seconds
            self.seconds += seconds
            self.low += seconds / one.spread
            self.high += seconds * one.spread
            before = self.costs.get((name, one.axis), CollectiveCost(name, one.axis, 0, 0, 0.0))
            self.costs[name, one.axis] = CollectiveCost(
                name, one.axis, before.runs + runs, before.num_bytes + runs * num_bytes,
                before.seconds + seconds,
            )  # fmt: skip


def _operators(
    graph: Graph, place: Mapping[int, int], estimates: Estimates, memory: Sequence[OperatorMemory]
) -> tuple[OperatorCost, ...]:
    """By name and phase, most time first."""
    members: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, node in enumerate(graph.nodes):
        if node.operation in place and not graph.operations[node.operation].is_free:
            members[graph.operations[node.operation].name, node.phase.value].append(index)
    found = []
    for (name, phase), nodes in members.items():
        prices = [place[graph.nodes[index].operation] for index in nodes]
        found.append(
            OperatorCost(
                name=name,
                phase=phase,
                runs=len(nodes),
                seconds=float(estimates.seconds[prices].sum()),
                bound_by=_most([(estimates.bound_by[at], estimates.seconds[at]) for at in prices]),
                provenance=_most([(estimates.provenance[at], estimates.seconds[at]) for at in prices]),
                whole_bytes=max(memory[index].whole_bytes for index in nodes),
                kept_bytes=sum(memory[index].kept_bytes for index in nodes),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _most(weighed: Sequence[tuple[str, float]]) -> str:
    """The word that most seconds stand behind."""
    total: defaultdict[str, float] = defaultdict(float)
    for word, seconds in weighed:
        total[word] += seconds
    return max(total, key=total.__getitem__)


if __name__ == "__main__":
    print_part("mesh_cost_model.step", "mesh_cost_model")
