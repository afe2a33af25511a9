"""A captured single-device graph rewritten under a plan: what each rank runs and what ranks exchange.

``parts`` finds the blocks of the model, ``cuts``, ``state``, ``rules``, ``products`` and ``tensor`` spread
tensor parallelism through the graph, ``weights`` and ``reduction`` say what data parallelism exchanges,
``layout`` deals parts out to stages, ``sequences``, ``stages`` and ``once`` put the calls in order. The
result is what ``core.work`` describes, as for a transformer built from its sizes.
"""

from __future__ import annotations

from itertools import pairwise

from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.workload.shard.layout import find_boundary, lay_out
from perfcast.workload.shard.parts import find_parts
from perfcast.workload.shard.reduction import MEGATRON_DDP, REDUCTIONS, TORCH_DDP, GradientReduction
from perfcast.workload.shard.stages import build_stages
from perfcast.workload.shard.tensor import cut_graph

__all__ = ["MEGATRON_DDP", "REDUCTIONS", "TORCH_DDP", "GradientReduction", "shard_graph"]

_CAN = "a captured graph can be cut by dp, zero, tp, sp and pp"


def shard_graph(
    graph: Graph, plan: Plan, *, reduction: GradientReduction = TORCH_DDP, num_tokens: int | None = None
) -> StepWork:
    """The work of a plan whose replicas each run the graph.

    Args:
        graph: One micro-batch of one replica on one device, its forward and backward (and optimizer, if it
            has one), or a forward alone.
        reduction: What the data-parallel wrapper does; ``plan.bucket_bytes`` goes before its own.
        num_tokens: Of the graph; by default the elements of its first input of two dims.

    Raises:
        PlanError: What the plan asks for cannot be done; the message states the equation that fails, or what
            can be done.
    """
    _check(graph, plan)
    parts = find_parts(graph)
    cutting = cut_graph(graph, parts, plan.tensor_parallel, sequence_parallel=plan.sequence_parallel)
    whole = lay_out(cutting, parts, plan, reduction)
    layers, stages = build_stages(whole)
    copies = plan.data_parallel * plan.num_micro_batches
    tokens = _count_tokens(graph) if num_tokens is None else num_tokens
    return StepWork(
        plan=plan,
        layers=layers,
        stages=stages,
        boundary=find_boundary(whole),
        overlaps_gradient_reduction=plan.overlaps_gradients and reduction.bucket_bytes is not None,
        overlaps_gather=plan.overlaps_weights,
        num_tokens=tokens * copies,
        flops=graph.flops * copies,
        recompute_flops=graph.recompute_flops * copies,
        assumptions=(*graph.notes, *cutting.notes),
    )


def _check(graph: Graph, plan: Plan) -> None:
    """What is not done to captured graphs.

    Raises:
        PlanError: With what can be.
    """
    for key, degree in (
        ("cp", plan.context_parallel),
        ("ep", plan.expert_parallel),
        ("tp_inputs", plan.tensor_parallel_inputs),
    ):
        if degree > 1:
            raise PlanError(
                f"{key}={degree}: {_CAN}, not by {key}; a transformer by its configuration can be, or a "
                "program that is itself parallel (--world-size)"
            )
    if plan.offload != "none":
        raise PlanError(
            f"offload={plan.offload}: {_CAN}; offloading is for a transformer by its configuration"
        )
    if plan.recompute_layers is not None:
        raise PlanError(
            f"recompute_layers={plan.recompute_layers}: a captured graph computes every layer again, or none"
        )
    if plan.recompute != "none" and not any(node.recomputed for node in graph.nodes):
        raise PlanError(f"recompute={plan.recompute}: the graph was captured without recomputation")
    phases = [node.phase for node in graph.nodes if node.phase is not Phase.OPTIMIZER]
    if any(a is Phase.BACKWARD and b is Phase.FORWARD for a, b in pairwise(phases)):
        raise PlanError("the graph has several micro-batches; capture one, the plan says how many are run")
    if any(graph.operations[n.operation].kind is OperationKind.COLLECTIVE for n in graph.nodes):
        raise PlanError("the graph is parallel already; it cannot be cut by a plan")


def _count_tokens(graph: Graph) -> int:
    inputs = {i for i, storage in enumerate(graph.storages) if storage.category == Category.INPUT}
    shapes = [t.type for t in graph.tensors if t.storage in inputs and t.type.shape]
    pairs = [t.num_elements for t in shapes if len(t.shape) == 2]
    return pairs[0] if pairs else (shapes[0].shape[0] if shapes else 0)
