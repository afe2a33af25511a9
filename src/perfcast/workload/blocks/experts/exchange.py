"""Tokens on their way to the experts of other ranks, and back: by copies, by places, or all to all.

As Megatron-LM's dispatchers do it (core/transformer/moe/token_dispatcher.py). 'alltoall': a rank sorts a copy
of each token for each of its experts, exchanges them in the experts' group and sorts them by local expert.
'deepep' (MoEFlexTokenDispatcher): one kernel exchanges one copy for each rank, which are sorted and repeated
where they arrive. 'allgather': every rank takes all tokens and picks its own. Back, in turn, rows are summed
by token where they were repeated. The backward is the mirror image.
"""

from __future__ import annotations

import math

from perfcast.core.dtype import DType
from perfcast.core.plan import Dispatch
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Stream
from perfcast.workload.blocks.experts.kernels import moved_rows
from perfcast.workload.blocks.experts.routing import ExpertLoad, expert_load, experts_of
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

#: Kernels that sort rows: keys, offsets, the sort itself.
_SORT_LAUNCHES = 3
#: More around a fused dispatch: indices of the k largest again, its layout, its notice, experts as a map,
#: counts to the device (token_dispatcher.py, _DeepepManager; fused_a2a.py).
_FUSED_LAUNCHES = 6
#: fp8 on its way has a scale in fp32 for every 128 elements (DeepSeek-V3, section 3.3).
_FP8_BITS = 8 + 32 / 128


def dispatch_of(local: Local) -> Dispatch:
    """How the tokens of a layer reach their experts."""
    return local.plan.dispatch or local.profile.dispatch


def load_of(local: Local) -> ExpertLoad:
    """Rows of the busiest rank for one micro-batch."""
    return expert_load(local.model, local.plan, local.tokens)


def arriving_rows(local: Local) -> int:
    """Rows that reach a rank before they are repeated for each of its experts."""
    load, ranks = load_of(local), local.plan.expert_parallel
    if ranks == 1:
        return load.tokens
    match dispatch_of(local):
        case "alltoall":
            return load.sent_rows
        case "allgather":
            return load.tokens * ranks
    places = experts_of(local.model).routing.expected_places(ranks)
    return min(math.ceil(load.tokens * places), load.sent_rows)


def begin_dispatch(
    tape: Tape, local: Local, *, is_backward: bool = False, is_awaited: bool = True
) -> int | None:
    """Tokens, or the gradients of what experts made of them, leave for the experts' ranks.

    Returns:
        The collective, where something is to run beside it.
    """
    load, name = load_of(local), "unpermute_backward" if is_backward else "permute"
    module = "experts.combine" if is_backward else "experts.dispatch"
    if dispatch_of(local) == "alltoall" or local.plan.expert_parallel == 1:
        _move(tape, local, name, load.tokens, load.sent_rows)
    return _exchange(tape, local, module, is_inwards=True, is_awaited=is_awaited)


def end_dispatch(tape: Tape, local: Local, *, is_backward: bool = False) -> None:
    """What has arrived is laid out by local expert."""
    load, name = load_of(local), "unpermute_backward" if is_backward else "permute"
    if dispatch_of(local) == "alltoall" or local.plan.expert_parallel == 1:
        _over_expert_tensor(tape, local, "all_gather", "experts.gather")
        _sort_chunks(tape, local, "experts.unsort" if is_backward else "experts.sort")
        return
    _over_expert_tensor(tape, local, "all_gather", "experts.gather")
    repeats = load.rows // max(load.sent_rows, 1)
    launches = _SORT_LAUNCHES if dispatch_of(local) == "allgather" else _SORT_LAUNCHES + _FUSED_LAUNCHES
    _move(tape, local, name, arriving_rows(local) * repeats, load.rows, num_launches=launches)


def combine(tape: Tape, local: Local, *, is_backward: bool = False) -> None:
    """What experts made of tokens, or the tokens' gradients, go back to the tokens' ranks and are summed."""
    load, name = load_of(local), "permute_backward" if is_backward else "unpermute"
    module = "experts.dispatch" if is_backward else "experts.combine"
    if dispatch_of(local) == "alltoall" or local.plan.expert_parallel == 1:
        _sort_chunks(tape, local, "experts.sort" if is_backward else "experts.unsort")
        _over_expert_tensor(tape, local, "reduce_scatter", "experts.scatter")
        _exchange(tape, local, module, is_inwards=False)
        _move(tape, local, name, load.sent_rows, load.tokens, num_launches=1)
        return
    repeats = load.rows // max(load.sent_rows, 1)
    _move(tape, local, name, load.rows, arriving_rows(local) * repeats, num_launches=1)
    _over_expert_tensor(tape, local, "reduce_scatter", "experts.scatter")
    _exchange(tape, local, module, is_inwards=False)


def _move(
    tape: Tape, local: Local, name: str, read: int, written: int, *, num_launches: int = _SORT_LAUNCHES
) -> None:
    operation = moved_rows(name, read, written, local.hidden, local.element)
    launches = 1 if name.endswith("backward") else num_launches
    tape.run(operation, f"experts.{name.removesuffix('_backward')}", num_launches=launches)


def _sort_chunks(tape: Tape, local: Local, module: str) -> None:
    """Rows come by rank and then by expert; several local experts want theirs together."""
    load, plan = load_of(local), local.plan
    sources = plan.expert_parallel * (1 if load.is_replicated else plan.tensor_parallel_of_experts)
    if load.num_local_experts > 1 and sources > 1:
        tape.run(moved_rows("sort_chunks", load.rows, load.rows, local.hidden, local.element), module)


def _exchange(
    tape: Tape, local: Local, module: str, *, is_inwards: bool, is_awaited: bool = True
) -> int | None:
    """The collective in the experts' group; its message is all that a rank sends, to itself too."""
    load, kind, plan = load_of(local), dispatch_of(local), local.plan
    rows = load.tokens * plan.expert_parallel if kind == "allgather" else load.sent_rows
    message, element = local.element.bytes_of(rows * local.hidden), local.element
    if kind == "deepep_fp8" and is_inwards:
        message, element = math.ceil(rows * local.hidden * _FP8_BITS / 8), DType.FP8
    names = {"alltoall": ("all_to_all", "all_to_all"), "allgather": ("reduce_scatter", "all_gather")}
    return tape.collective(
        names.get(kind, ("dispatch", "dispatch"))[is_inwards], message, group_of(plan, "expert"),
        Stream.EXPERT, module, world_size=plan.world_size, dtype=element, is_awaited=is_awaited,
        routing=experts_of(local.model).routing if kind not in names else None,
    )  # fmt: skip


def _over_expert_tensor(tape: Tape, local: Local, collective: str, module: str) -> None:
    """Rows of the ranks that cut an expert, gathered before its products and summed behind them."""
    load = load_of(local)
    if load.is_replicated or local.plan.tensor_parallel_of_experts == 1:
        return
    by_copy = dispatch_of(local) == "alltoall" or local.plan.expert_parallel == 1
    rows = load.rows if by_copy else arriving_rows(local) * local.plan.tensor_parallel_of_experts
    tape.collective(
        collective, local.element.bytes_of(rows * local.hidden),
        group_of(local.plan, "expert_tensor"), Stream.EXPERT, module,
        world_size=local.plan.world_size, dtype=local.element,
    )  # fmt: skip
