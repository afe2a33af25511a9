"""A mixture of experts in place of an MLP, forward and backward, as one rank runs it.

As Megatron-LM does it (core/transformer/moe: router.py, token_dispatcher.py, experts.py): route, bring tokens
to the ranks of their experts (``exchange``), two grouped products with the weighted activation between, and
all of it back. The backward is the mirror image; each collective moves as many rows again.
"""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Stream
from perfcast.errors import PlanError
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.experts.exchange import (
    begin_dispatch,
    combine,
    dispatch_of,
    end_dispatch,
    load_of,
)
from perfcast.workload.blocks.experts.kernels import (
    grouped_product,
    grouped_weight_gradient,
)
from perfcast.workload.blocks.experts.routing import experts_of
from perfcast.workload.blocks.experts.shared import shared_backward, shared_forward
from perfcast.workload.blocks.layer.mlp import activation_backward, activation_forward
from perfcast.workload.blocks.linear import add
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.products import accumulate, block_format, quantise, weight_gradient
from perfcast.workload.blocks.tape import Tape

ROUTER = "experts.router"
#: Small kernels over tokens × experts beside the named ones, counted where no router is fused (Megatron-LM:
#: moe_utils.py, topk_softmax_with_capacity: casts, a sort behind the k largest, maps filled and scattered,
#: their sums; router.py, compute_routing_scores_for_aux_loss, switch_load_balancing_loss_func: the same again
#: for the loss that balances, its products and sums); and their gradients.
_ROUTER_FORWARD, _ROUTER_BACKWARD = 26, 13
#: More where ranks exchange counts themselves: sums by rank and expert, and copies of them to the host
#: (token_dispatcher.py, MoEAlltoAllTokenDispatcher.preprocess).
_COUNTS_FORWARD = 8


def experts_forward(tape: Tape, local: Local) -> None:
    """From the normed input to what the residual takes.

    Raises:
        PlanError: 2-D tensor parallelism.
    """
    _check_inputs(local)
    has_shared = experts_of(local.model).shared_ffn_hidden_size > 0
    overlaps_shared = local.plan.overlaps_shared_experts
    if has_shared and not overlaps_shared:
        shared_forward(tape, local)
    _route(tape, local)
    arrived = begin_dispatch(tape, local, is_awaited=not overlaps_shared)
    if has_shared and overlaps_shared:
        shared_forward(tape, local)
    tape.wait(arrived)
    end_dispatch(tape, local)
    _multiply(tape, local)
    combine(tape, local)
    _join(tape, local, "experts.output")
    if has_shared:
        add(tape, local.own_tokens, local.hidden, local.element, "experts.add_shared")


def experts_backward(tape: Tape, local: Local) -> None:
    """From the gradient of the sum to that of the normed input; weights' gradients are flagged."""
    has_shared = experts_of(local.model).shared_ffn_hidden_size > 0
    overlaps_shared = local.plan.overlaps_shared_experts
    if has_shared and not overlaps_shared:
        shared_backward(tape, local)
    arrived = begin_dispatch(tape, local, is_backward=True, is_awaited=not overlaps_shared)
    if has_shared and overlaps_shared:
        shared_backward(tape, local)
    tape.wait(arrived)
    end_dispatch(tape, local, is_backward=True)
    _multiply_backward(tape, local)
    combine(tape, local, is_backward=True)
    _route_backward(tape, local)
    _join(tape, local, "experts.input")
    if has_shared:
        add(tape, local.own_tokens, local.hidden, local.element, "experts.add_shared")


def _check_inputs(local: Local) -> None:
    if local.plan.tensor_parallel_inputs > 1:
        raise PlanError(
            f"tp_inputs={local.plan.tensor_parallel_inputs} with experts: a router needs the whole hidden "
            "size; take tp_inputs=1"
        )


# ---- router ------------------------------------------------------------------------------------------


def _route(tape: Tape, local: Local) -> None:
    """One product, probabilities in fp32, the k largest of each row.

    The host reads how many rows each expert has before it issues what has as many (Megatron-LM:
    token_dispatcher.py, _maybe_dtoh_and_synchronize; DeepEP waits in its dispatch); buffers of a fixed size
    spare it that.
    """
    tokens, experts = load_of(local).tokens, experts_of(local.model)
    count, module, element = experts.num_experts, ROUTER, local.element
    tape.run(kernels.product(tokens, count, local.hidden, "nt", element, element), module)
    tape.run(kernels.softmax(tokens, count, element, DType.FP32), module)
    logits = kernels.tensor(DType.FP32, tokens, count)
    picked = kernels.tensor(DType.FP32, tokens, experts.experts_per_token)
    chosen = kernels.tensor(DType.INT64, tokens, experts.experts_per_token)
    tape.run(kernels.rows_kernel(kernels.Kind.SORT, "topk", (logits,), (picked, chosen), row=count), module)
    waits = local.profile.waits_for_counts and local.plan.capacity_factor is None
    shares = local.plan.expert_parallel > 1 and dispatch_of(local) in ("alltoall", "allgather")
    small = _ROUTER_FORWARD + (_COUNTS_FORWARD if shares else 0)
    for at in range(small):
        reads = waits and not shares and at == small - 1
        tape.run(kernels.elementwise("mul", (logits,), (logits,)), module, host_waits=reads)
    if shares:
        _share_counts(tape, local, host_waits=waits)


def _share_counts(tape: Tape, local: Local, *, host_waits: bool) -> None:
    """Every rank learns how many rows the others have for each expert; a fused dispatch sees to it itself."""
    ranks = group_of(local.plan, "expert")
    counts = DType.INT64.bytes_of(len(ranks) * experts_of(local.model).num_experts)
    tape.collective(
        "all_gather", counts, ranks, Stream.EXPERT, "experts.counts",
        world_size=local.plan.world_size, dtype=DType.INT64, host_waits=host_waits,
    )  # fmt: skip


def _route_backward(tape: Tape, local: Local) -> None:
    tokens, count = load_of(local).tokens, experts_of(local.model).num_experts
    hidden, element, module = local.hidden, local.element, ROUTER
    logits = kernels.tensor(DType.FP32, tokens, count)
    for _ in range(_ROUTER_BACKWARD):
        tape.run(kernels.elementwise("mul", (logits,), (logits,)), module)
    tape.run(kernels.softmax(tokens, count, DType.FP32, element, is_backward=True), module)
    tape.run(kernels.product(tokens, hidden, count, "nn", element, element), module)
    weight_gradient(tape, local, tokens, count, hidden, module, in_fp8=False)
    add(tape, tokens, hidden, element, module)


def _join(tape: Tape, local: Local, module: str) -> None:
    """What makes the tensor-parallel ranks agree where they hold the same tokens."""
    load = load_of(local)
    collective = "all_reduce" if load.is_replicated else "all_gather" if load.is_split else None
    if collective is not None:
        tape.collective(
            collective, local.element.bytes_of(local.tokens * local.hidden), local.tensor_ranks,
            Stream.TENSOR, module, world_size=local.plan.world_size, dtype=local.element,
        )  # fmt: skip


# ---- the experts' own work ---------------------------------------------------------------------------


def up_width(local: Local) -> int:
    """Columns of an expert's first product on this rank."""
    return (2 if local.model.is_gated else 1) * load_of(local).width


def _multiply(tape: Tape, local: Local) -> None:
    load = load_of(local)
    _product(tape, local, up_width(local), local.hidden, "nt", "experts.up")
    for operation in activation_forward(local, load.rows, load.width):
        tape.run(operation, "experts.activation")
    _product(tape, local, local.hidden, load.width, "nt", "experts.down")


def _multiply_backward(tape: Tape, local: Local) -> None:
    load = load_of(local)
    _product(tape, local, load.width, local.hidden, "nn", "experts.down")
    _weight_gradient(tape, local, local.hidden, load.width, "experts.down")
    for operation in activation_backward(local, load.rows, load.width):
        tape.run(operation, "experts.activation")
    _product(tape, local, local.hidden, up_width(local), "nn", "experts.up")
    _weight_gradient(tape, local, up_width(local), local.hidden, "experts.up")


def _product(tape: Tape, local: Local, n: int, k: int, layout: str, module: str) -> None:
    load = load_of(local)
    quantise(tape, local, load.rows, k, module)
    operation = grouped_product(
        load.num_local_experts,
        load.rows,
        n,
        k,
        layout,
        local.element,
        local.precision,
        block_format(local, in_fp8=True),
    )
    tape.run(operation, module, num_launches=load.num_local_experts)


def _weight_gradient(tape: Tape, local: Local, outputs: int, inputs: int, module: str) -> None:
    """outputs × inputs of each expert, added to what earlier micro-batches left."""
    load, fuses = load_of(local), local.fuses_accumulation
    operation = grouped_weight_gradient(
        load.num_local_experts, load.rows, outputs, inputs, local.element, local.precision,
        out=local.gradient if fuses else local.element, accumulates=fuses,
        format_name=block_format(local, in_fp8=True),
    )  # fmt: skip
    tape.run(operation, module, num_launches=load.num_local_experts, is_weight_gradient=True)
    if not fuses:
        accumulate(tape, local, load.num_local_experts * outputs * inputs, module)
