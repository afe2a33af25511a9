"""Which parts of the model each stage of a plan runs, and what crosses from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Phase
from perfcast.core.model.weights import split_layers
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import next_stage
from perfcast.core.tensor import Category
from perfcast.errors import PlanError
from perfcast.workload.shard.parts import Parts
from perfcast.workload.shard.reduction import GradientReduction
from perfcast.workload.shard.tensor import Cutting
from perfcast.workload.shard.weights import Weight, find_weights


@dataclass(frozen=True)
class Whole:
    """All that stages are made from.

    Attributes:
        chunks: Of each part of the plan (stages × virtual stages, in the model's order), the parts of the
            model in it.
    """

    cutting: Cutting
    parts: Parts
    plan: Plan
    reduction: GradientReduction
    weights: tuple[Weight, ...]
    chunks: tuple[tuple[int, ...], ...]

    @property
    def graph(self) -> Graph:
        """The whole graph."""
        return self.cutting.graph

    @property
    def dtype(self) -> DType:
        """Element type of weights and gradients."""
        return self.weights[0].type.dtype if self.weights else DType.FP32

    def parts_of_stage(self, stage: int) -> tuple[int, ...]:
        """Parts of the model whose weights a stage holds."""
        pipeline = self.plan.pipeline_parallel
        own = [part for chunk in self.chunks[stage::pipeline] for part in chunk]
        if self.plan.schedule == "dualpipe":
            own += [part for part in self.chunks[pipeline - 1 - stage] if part not in own]
        return tuple(own)

    def weights_of(self, parts: Sequence[int]) -> list[Weight]:
        """Weights that these parts use."""
        return [weight for weight in self.weights if weight.part in parts]


def lay_out(cutting: Cutting, parts: Parts, plan: Plan, reduction: GradientReduction) -> Whole:
    """Assign parts to the stages of a plan.

    Raises:
        PlanError: More stages than blocks, or layers that do not add up.
    """
    return Whole(cutting, parts, plan, reduction, find_weights(cutting, parts), _split(parts, plan))


def _split(parts: Parts, plan: Plan) -> tuple[tuple[int, ...], ...]:
    num_chunks, behind = plan.pipeline_parallel * plan.virtual_stages_per_rank, parts.num_blocks + 1
    if num_chunks == 1:
        return (tuple(range(behind + 1)),)
    if not parts.num_blocks:
        raise PlanError(
            f"pp={plan.pipeline_parallel}: the model has no blocks that repeat (numbered modules of a list) "
            "to cut between; dp and zero can be used"
        )
    counts = plan.stage_layers or split_layers(parts.num_blocks, num_chunks)
    if len(counts) != num_chunks or sum(counts) != parts.num_blocks:
        raise PlanError(
            f"layers {' + '.join(map(str, counts))} = {sum(counts)} in {len(counts)} parts, but the model "
            f"has {parts.num_blocks} blocks and pp · vp = {num_chunks} parts"
        )
    found, first = [], 1
    for at, count in enumerate(counts):
        ends = ((0,) if at == 0 else (), (behind,) if at == num_chunks - 1 else ())
        found.append((*ends[0], *range(first, first + count), *ends[1]))
        first += count
    return tuple(found)


# ---- between stages -----------------------------------------------------------------------------


def find_boundary(whole: Whole) -> Operation | None:
    """What a stage sends the next: what depends on weights and is read behind the cut, at most."""
    if len(whole.chunks) < 2:
        return None
    graph, cutting = whole.graph, whole.cutting
    cuts = _crossing(whole)
    num_bytes = max(sum(cutting.local_bytes(storage) for storage in cut) for cut in cuts)
    crossing = set().union(*cuts)
    largest = max(crossing, key=lambda storage: graph.storages[storage].num_bytes)
    dtype = next(t.type.dtype for t in graph.tensors if t.storage == largest)
    plan = whole.plan
    return collective_operation("send", num_bytes, next_stage(plan), dtype, num_groups=plan.ranks_per_stage)


def _crossing(whole: Whole) -> list[set[int]]:
    """For each cut, the storages that cross it in the forward.

    What depends on no weight (masks, positions) every stage makes anew.
    """
    graph, chunk_of = whole.graph, {p: c for c, parts in enumerate(whole.chunks) for p in parts}
    made: dict[int, int] = {}
    last_read: dict[int, int] = {}
    weighted = {i for i, storage in enumerate(graph.storages) if storage.category == Category.PARAMETER}
    parameters = frozenset(weighted)
    for index, node in enumerate(graph.nodes):
        if node.phase is not Phase.FORWARD:
            continue
        chunk = chunk_of[whole.parts.of_node[index]]
        inputs = [graph.tensors[tensor].storage for tensor in node.inputs]
        last_read.update((storage, max(last_read.get(storage, 0), chunk)) for storage in inputs)
        for tensor in node.outputs:
            storage = graph.tensors[tensor].storage
            made.setdefault(storage, chunk)
            if not weighted.isdisjoint(inputs):
                weighted.add(storage)
    cuts: list[set[int]] = [set() for _ in range(len(whole.chunks) - 1)]
    for storage in weighted - parameters:
        for cut in range(made[storage], last_read.get(storage, made[storage])):
            cuts[cut].add(storage)
    return cuts
