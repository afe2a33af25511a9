"""How many rows a mixture of experts moves and multiplies on one rank.

With t tokens that a rank routes, k experts a token, E experts over ep ranks of etp each, imbalance b and a
capacity c: a rank sends t·k rows and its products take t·k·etp (what ep ranks send it, gathered over the etp
ranks that cut an expert). The busiest rank, which all others wait for, has b times that. With a capacity
every expert has a buffer of c times its mean, filled or not, and drops what is beyond (Lepikhin et al.:
GShard, 2020, section 2.2; Fedus et al.: Switch Transformers, 2021, section 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Dispatch, Plan
from perfcast.errors import ModelError


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """Of the busiest rank.

    Attributes:
        tokens: Rows of the router: tokens of this rank alone.
        sent_rows: Rows that the rank exchanges with the others of its experts' group, its own included.
        rows: Rows of its products.
        num_local_experts: Experts of a rank.
        width: Of an expert's MLP on this rank.
        is_replicated: Whether the tensor-parallel ranks route the same tokens, each with its part of the
            experts' width, and add up the results.
        is_split: Whether tokens that the tensor-parallel ranks share are cut before the router and
            gathered behind the sum (DeepSpeed: moe/mappings.py, drop_tokens and gather_tokens).
    """

    tokens: int
    sent_rows: int
    rows: int
    num_local_experts: int
    width: int
    is_replicated: bool
    is_split: bool


def experts_of(model: Transformer) -> Experts:
    """The mixture of a model.

    Raises:
        ModelError: It has none.
    """
    if model.experts is None:
        raise ModelError("a layer of experts in a model without experts")
    return model.experts


def expert_load(model: Transformer, plan: Plan, tokens: int) -> ExpertLoad:
    """The load of one micro-batch.

    Args:
        tokens: Of the micro-batch on this rank before tensor parallelism: sequences × sequence / cp.

    Raises:
        ModelError: The model has no experts.
    """
    experts, inner = experts_of(model), plan.tensor_parallel_of_experts
    shares_tokens = plan.tensor_parallel > 1 and not plan.sequence_parallel
    is_replicated = shares_tokens and inner == plan.tensor_parallel
    own = tokens if is_replicated else math.ceil(tokens / plan.tensor_parallel)
    return ExpertLoad(
        tokens=own,
        sent_rows=sent_rows(experts, plan, own),
        rows=rows_of_products(experts, plan, own, sends=True, gathers=not is_replicated),
        num_local_experts=experts.num_experts // plan.expert_parallel,
        width=experts.ffn_hidden_size // inner,
        is_replicated=is_replicated,
        is_split=shares_tokens and not is_replicated,
    )


def sent_rows(experts: Experts, plan: Plan, tokens: int) -> int:
    """Rows that the tokens of a rank are to their experts, in training and serving alike."""
    return math.ceil(tokens * experts.experts_per_token * plan.expert_load)


def rows_of_products(experts: Experts, plan: Plan, tokens: int, *, sends: bool, gathers: bool) -> int:
    """Rows that the busiest rank's products take, at least one.

    Args:
        tokens: Of the rank.
        sends: Whether ranks send their rows to each other, so that each gets as many as it has; else all
            hold the same tokens, and each takes the rows of its own experts.
        gathers: Whether the ranks that cut an expert have different rows, which they share.
    """
    sent = sent_rows(experts, plan, tokens)
    if not sends:
        return max(1, math.ceil(sent / plan.expert_parallel))
    return max(1, sent * (plan.tensor_parallel_of_experts if gathers else 1))


def kept_share(plan: Plan) -> float:
    """Part of all rows that experts take where loads are even: 1, or as much as their buffers hold."""
    return 1.0 if plan.capacity_factor is None else min(1.0, plan.capacity_factor)


def dropped_share(plan: Plan) -> float:
    """Part of the busiest rank's rows beyond its buffers: 1 - c / b; 0 where nothing is fixed or it fits."""
    if plan.capacity_factor is None:
        return 0.0
    return max(0.0, 1.0 - plan.capacity_factor / plan.expert_imbalance)


#: Exponent by which aiconfigurator draws the routings of its timings and of its own forecasts of serving
#: (sdk/models/deepseek.py, _power_law_alpha).
SERVED_POPULARITY = "power_law_1.01"


def popularity_of(plan: Plan) -> str:
    """By what law the tokens of a step of serving ask for experts.

    Some are asked for more often than others, so that few tokens visit fewer experts, and of ranks among
    which they are spread one has most; unless ``imbalance``, or a capacity, says what the busiest takes.
    """
    is_stated = plan.expert_imbalance > 1 or plan.capacity_factor is not None
    return "balanced" if is_stated else SERVED_POPULARITY


_DISPATCHES: Mapping[Dispatch, str] = MappingProxyType(
    {
        "alltoall": "a copy for each expert",
        "allgather": "all tokens to all ranks",
        "deepep": "a copy for each rank, over the network one for each node",
        "deepep_fp8": "a copy for each rank, over the network one for each node, in fp8 on its way in",
    }
)


def dispatch_assumptions(model: Transformer, plan: Plan, usual: Dispatch) -> tuple[str, ...]:
    """How tokens travel, in words; ``usual``: as the framework does."""
    if model.experts is None or plan.expert_parallel == 1:
        return ()
    kind, places = plan.dispatch or usual, model.experts.routing
    said = f"tokens travel by dispatch={kind}: {_DISPATCHES[kind]}"
    if places.num_groups > places.groups_per_token:
        said += f"; they visit {places.groups_per_token} of {places.num_groups} groups of experts"
    if plan.schedule == "dualpipe":
        return (said, "DualPipe hides them beside another micro-batch's compute, whatever overlap= says")
    if plan.overlaps_passes:
        return (said, "they are hidden beside another micro-batch's opposite pass, in the first passes too")
    return (said,)


def routing_assumptions(model: Transformer, plan: Plan, *, serves: bool = False) -> tuple[str, ...]:
    """How tokens are thought to spread over experts, in words."""
    if model.experts is None:
        return ()
    if serves and popularity_of(plan) == SERVED_POPULARITY:
        said = "tokens ask for experts by a power law (exponent 1.01, as those of the measured kernels do)"
    elif plan.expert_imbalance > 1:
        said = f"the busiest rank's experts take {plan.expert_imbalance:g} times the mean; all wait for it"
    else:
        said = "tokens are spread evenly over the experts"
    if plan.capacity_factor is None:
        return (said,)
    buffers = f"every expert has a buffer of {plan.capacity_factor:g} times its mean"
    dropped = dropped_share(plan)
    return (said, f"{buffers}, which drops {dropped:.0%} of the busiest rank's rows" if dropped else buffers)
