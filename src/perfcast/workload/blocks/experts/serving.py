"""A mixture of experts of one rank while a model answers: fused kernels, and how tokens reach them."""

from __future__ import annotations

import math
from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.model.transformer import Experts
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Dispatch
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Calls, Stream
from perfcast.workload.blocks.experts.routing import experts_of, popularity_of, rows_of_products, sent_rows
from perfcast.workload.blocks.kernels import elementwise, rows_kernel, softmax, tensor
from perfcast.workload.blocks.serving.kernels import ExpertShape, formatted_product, fused_experts
from perfcast.workload.blocks.serving.parts import mlp, reduce_over_tensor
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.tape import Tape

#: What ranks do together that have attention, and tokens, of their own.
SHARED_MODULES = frozenset(
    {"experts", "experts.dispatch", "experts.gather", "experts.scatter", "experts.combine"}
)


def mixture(setting: Serving) -> Calls:
    """Router, experts, shared experts, and the sum over the tensor-parallel ranks."""
    tape, experts, plan = Tape(), experts_of(setting.model), setting.plan
    if experts.shared_ffn_hidden_size:
        _shared(tape, setting, experts)
    rows = tokens_of_rank(setting)
    _route(tape, setting, rows)
    _communicate_rows(
        tape, setting, rows, "experts.dispatch", FORMATS[setting.precision.format].activation_bits
    )
    _over_expert_tensor(tape, setting, rows, "all_gather", "experts.gather")
    tape.run(
        fused_experts(expert_shape(setting), setting.precision.format, setting.precision.element), "experts"
    )
    _over_expert_tensor(tape, setting, rows, "reduce_scatter", "experts.scatter")
    _communicate_rows(tape, setting, rows, "experts.combine", setting.precision.element.bits)
    x = tensor(setting.precision.element, setting.tokens, setting.model.hidden_size)
    if sends_tokens(setting) and plan.tensor_parallel > 1 and not _cuts_experts(setting):
        if experts.shared_ffn_hidden_size:
            reduce_over_tensor(tape, setting, "shared.down")
        _gather_tokens(tape, setting)
    else:
        reduce_over_tensor(tape, setting, "experts.output")
    if experts.shared_ffn_hidden_size:
        tape.run(elementwise("add", (x, x), (x,)), "experts.add_shared")
    return tape.calls()


def _shared(tape: Tape, setting: Serving, experts: Experts) -> None:
    """Experts that every token visits; of few tokens beside the others, which hide them.

    What their weights take of the memory's bandwidth meanwhile, 1/k of the others' or less, is left out.
    """
    own = Tape()
    mlp(own, setting, experts.shared_ffn_hidden_size // setting.plan.tensor_parallel, module="shared")
    if experts.has_shared_gate:
        _shared_gate(own, setting)
    is_hidden = setting.is_decode and setting.tokens <= setting.profile.tokens_beside_shared
    tape.add(replace(call, share=0.0) if is_hidden else call for call in own.calls())


def sends_tokens(setting: Serving) -> bool:
    """Whether a rank's experts serve other tokens than its own tensor-parallel group's."""
    plan = setting.plan
    return plan.expert_parallel * plan.tensor_parallel_of_experts != plan.tensor_parallel


def _cuts_experts(setting: Serving) -> bool:
    """Whether the tensor-parallel ranks cut each expert, and so hold the same tokens."""
    return setting.plan.tensor_parallel_of_experts == setting.plan.tensor_parallel


def tokens_of_rank(setting: Serving) -> int:
    """Tokens that this rank sends to experts: all of its replica, or its share of them."""
    if not sends_tokens(setting) or _cuts_experts(setting):
        return setting.tokens
    return math.ceil(setting.tokens / setting.plan.tensor_parallel)


def expert_shape(setting: Serving) -> ExpertShape:
    """Sizes of the fused kernel on the busiest rank.

    Its tokens are those of all ranks that share the experts; imbalance, or a fixed capacity, counts as so
    many more.
    """
    model, plan = setting.model, setting.plan
    experts, inner = experts_of(model), plan.tensor_parallel_of_experts
    rows = rows_of_products(
        experts,
        plan,
        tokens_of_rank(setting),
        sends=sends_tokens(setting),
        gathers=not _cuts_experts(setting),
    )
    tokens = math.ceil(setting.tokens * plan.expert_load)
    if sends_tokens(setting):
        tokens = rows * plan.expert_parallel // experts.experts_per_token
    return ExpertShape(
        num_tokens=tokens, rows=rows, hidden_size=model.hidden_size,
        inter_size=experts.ffn_hidden_size, experts_per_token=experts.experts_per_token,
        num_experts=experts.num_experts, expert_parallel=plan.expert_parallel, tensor_parallel=inner,
        is_gated=model.is_gated, popularity=popularity_of(plan),
    )  # fmt: skip


def _route(tape: Tape, setting: Serving, rows: int) -> None:
    """One product; a kernel each for probabilities and the k largest, where experts do not begin there."""
    experts, precision = experts_of(setting.model), setting.precision
    tape.run(
        formatted_product(rows, experts.num_experts, setting.model.hidden_size, precision.outside),
        "experts.router",
    )
    if setting.profile.experts_route:
        return
    tape.run(softmax(rows, experts.num_experts, precision.element, DType.FP32), "experts.router")
    scores = tensor(DType.FP32, rows, experts.num_experts)
    picked = tensor(DType.FP32, rows, experts.experts_per_token)
    tape.run(rows_kernel(OperationKind.SORT, "topk", (scores,), (picked,)), "experts.router")


def dispatch_of(setting: Serving) -> Dispatch:
    """How tokens reach experts of other ranks: as the plan says, or as the framework has it.

    Prompts go by places, new tokens by copies, straight to every rank (DeepEP's normal and low-latency
    kernels; SGLang: --deepep-mode auto), where they are not gathered.
    """
    plan, profile = setting.plan, setting.profile
    if plan.dispatch is not None:
        return plan.dispatch
    is_wide = plan.expert_parallel > experts_of(setting.model).experts_per_token
    if profile.gathers_tokens and not (profile.sends_beyond_choices and is_wide):
        return "allgather"
    return "alltoall" if setting.is_decode else "deepep"


def _communicate_rows(tape: Tape, setting: Serving, rows: int, module: str, bits: int) -> None:
    """Tokens to their experts, or back; on their way in they may be narrow (DeepSeek-V3, section 3.4).

    Tokens that are gathered travel as wide as they are where the framework quantises them only then.
    """
    plan, experts = setting.plan, experts_of(setting.model)
    if not sends_tokens(setting):
        return
    kind = dispatch_of(setting)
    if kind == "allgather" and not setting.profile.gathers_narrow:
        bits = setting.precision.element.bits
    sent = rows * plan.expert_parallel if kind == "allgather" else sent_rows(experts, plan, rows)
    message = math.ceil(sent * setting.model.hidden_size * bits / 8)
    is_inwards = module == "experts.dispatch"
    gathers = {"alltoall": "all_to_all", "allgather": "all_gather" if is_inwards else "reduce_scatter"}
    tape.collective(
        gathers.get(kind, "dispatch"), message, group_of(plan, "expert"), Stream.EXPERT, module,
        world_size=plan.world_size, dtype=setting.precision.element,
        routing=experts.routing if kind not in gathers else None,
    )  # fmt: skip


def _over_expert_tensor(tape: Tape, setting: Serving, rows: int, collective: str, module: str) -> None:
    """Ranks that cut an expert but not the tokens share their rows, and sum what they make of them.

    Those are tokens, each once, where they were gathered or need not travel, and copies of them else.
    """
    plan, element = setting.plan, setting.precision.element
    if not sends_tokens(setting) or _cuts_experts(setting):
        return
    if plan.expert_parallel == 1 or dispatch_of(setting) == "allgather":
        sent = rows * plan.expert_parallel
    else:
        sent = sent_rows(experts_of(setting.model), plan, rows)
    message_bytes = element.bytes_of(sent * plan.tensor_parallel_of_experts * setting.model.hidden_size)
    tape.collective(
        collective, message_bytes, group_of(plan, "expert_tensor"), Stream.EXPERT, module,
        world_size=plan.world_size, dtype=element,
    )  # fmt: skip


def _gather_tokens(tape: Tape, setting: Serving) -> None:
    element = setting.precision.element
    tape.collective(
        "all_gather", element.bytes_of(setting.tokens * setting.model.hidden_size),
        group_of(setting.plan, "tensor"), Stream.TENSOR, "experts.output",
        world_size=setting.plan.world_size, dtype=element,
    )  # fmt: skip


def _shared_gate(tape: Tape, setting: Serving) -> None:
    tokens, hidden, element = setting.tokens, setting.model.hidden_size, setting.precision.element
    whole, gate = tensor(element, tokens, hidden), tensor(element, tokens, 1)
    tape.run(formatted_product(tokens, 1, hidden, setting.precision.outside), "shared.gate")
    tape.run(elementwise("sigmoid", (gate,), (gate,), flops_per_element=3), "shared.gate")
    tape.run(elementwise("mul", (whole, gate), (whole,)), "shared.gate")
