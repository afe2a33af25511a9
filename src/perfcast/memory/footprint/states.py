"""Weights, gradients and optimizer state of one rank.

Mixed precision with Adam holds 2 + 4 + 4 + 8 bytes a parameter, or 2 + 2 + 4 + 8 where gradients are summed
in half precision; ZeRO divides optimizer state (stage 1), gradients (2) and weights (3) by the number of
ranks that hold the same (Rajbhandari et al.: ZeRO, SC 2020, section 3; Megatron-LM: docs, distributed
optimizer: 4 + 14 / d or 6 + 12 / d bytes).
"""

from __future__ import annotations

from collections.abc import Callable

from perfcast.core.forecast.footprint import Term
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.weights import StageWeights, Weight
from perfcast.memory.footprint.habits import Habits

#: Bytes of the moments of an element.
MOMENT_BYTES = {"none": 0.0, "sgd": 0.0, "momentum": 4.0, "adam": 8.0, "adamw": 8.0}
#: Two moments of a byte, each with an fp32 scale per block of 256 (Dettmers et al., ICLR 2022, section 2.1).
EIGHT_BIT_BYTES = 2 * (1 + 4 / 256)
_ZERO = "Rajbhandari et al.: ZeRO, SC 2020, section 3"


def state_terms(weights: StageWeights, plan: Plan, training: Training, habits: Habits) -> tuple[Term, ...]:
    """What stays from step to step; gradients too, which exist at every moment that can be the peak."""
    terms = [
        weight_term(weights, plan, habits),
        gradient_term(weights, plan, habits),
        local_gradient_term(weights, plan, habits),
        master_term(weights, plan, habits),
        moment_term(weights, plan, training),
        dummy_gradient_term(weights, plan, habits),
        bucket_term(weights, plan, habits),
    ]
    return tuple(term for term in terms if term.num_bytes)


def weight_term(weights: StageWeights, plan: Plan, habits: Habits) -> Term:
    """Weights as the forward reads them; sharded with ZeRO 3, on the host where parameters are offloaded."""
    each = 0 if plan.offload == "parameters" else habits.weight_bytes
    return _per_parameter(
        "weights", Category.PARAMETER, each, weights, plan, plan.zero_stage >= 3, habits.source
    )


def gradient_term(weights: StageWeights, plan: Plan, habits: Habits) -> Term:
    """The buffer of summed gradients; sharded from ZeRO 2 on."""
    each = 0 if plan.offload == "parameters" else habits.gradient_bytes
    return _per_parameter(
        "gradients", Category.GRADIENT, each, weights, plan, plan.zero_stage >= 2, habits.source
    )


def local_gradient_term(weights: StageWeights, plan: Plan, habits: Habits) -> Term:
    """Gradients as autograd hands them over, where they stay beside the buffer; not from ZeRO 2 on."""
    each = habits.local_gradient_bytes if plan.zero_stage < 2 else 0
    return _per_parameter("local gradients", Category.GRADIENT, each, weights, plan, False, habits.source)


def master_term(weights: StageWeights, plan: Plan, habits: Habits) -> Term:
    """The optimizer's fp32 copy of half-precision weights; sharded from ZeRO 1 on."""
    each = 4 if habits.has_master_weights and plan.offload not in ("optimizer", "parameters") else 0
    return _per_parameter(
        "master weights", Category.OPTIMIZER_STATE, each, weights, plan, plan.zero_stage >= 1, _ZERO
    )


def moment_term(weights: StageWeights, plan: Plan, training: Training) -> Term:
    """The optimizer's moments; sharded from ZeRO 1 on, on the host where it is offloaded."""
    is_sharded = plan.zero_stage >= 1
    name, category = f"moments of {training.optimizer}", Category.OPTIMIZER_STATE
    if plan.offload in ("optimizer", "parameters"):
        return Term(name, category, 0, "held by the host", _ZERO)
    if training.optimizer in MOMENT_BYTES or training.optimizer == "adamw_8bit":
        each = MOMENT_BYTES.get(training.optimizer, EIGHT_BIT_BYTES)
        return _per_parameter(name, category, each, weights, plan, is_sharded, _ZERO)
    if training.optimizer == "muon":
        num_bytes = _by_shape(
            weights, plan, is_sharded, _momentum_bytes, lambda weight: 8 * weight.num_elements
        )
        formula = "4 bytes of momentum a weight of the layers' matrices; Adam's 8 for all others"
        source = "Jordan et al.: Muon, 2024; Liu et al.: Muon is scalable, 2025, section 2"
    else:
        num_bytes = _by_shape(weights, plan, is_sharded, _factored_bytes, _factored_bytes)
        formula = "4 bytes · (rows + columns) of each matrix, 4 · size of a vector"
        source = "Shazeer and Stern: Adafactor, ICML 2018, section 3"
    return Term(name, category, num_bytes, formula, source)


def _by_shape(
    weights: StageWeights,
    plan: Plan,
    is_sharded: bool,
    inside: Callable[[Weight], int],
    outside: Callable[[Weight], int],
) -> int:
    """State of which a matrix has another size than a vector, inside the layers and outside of them."""
    layers = (
        (weights.num_dense_layers, weights.dense_layer),
        (weights.num_expert_layers, weights.expert_layer),
    )
    dense = sum(outside(weight) for weight in (*weights.embedding, *weights.head))
    dense += sum(count * inside(w) for count, layer in layers for w in layer if not w.is_expert)
    expert = sum(count * inside(w) for count, layer in layers for w in layer if w.is_expert)
    over = _shards(plan) if is_sharded else (1, 1)
    return round(dense / over[0] + expert / over[1])


def _shards(plan: Plan) -> tuple[int, int]:
    """Ranks over which dense and expert weights are sharded."""
    return plan.shard_size, min(plan.shard_size, plan.num_expert_replicas)


def _momentum_bytes(weight: Weight) -> int:
    return (4 if weight.columns > 1 else 8) * weight.num_elements


def _factored_bytes(weight: Weight) -> int:
    return 4 * weight.count * (weight.rows + (weight.columns if weight.columns > 1 else 0))


def dummy_gradient_term(weights: StageWeights, plan: Plan, habits: Habits) -> Term:
    """One gradient of each shape that occurs among the layers' matrices, kept but never filled."""
    shapes = {(weight.rows, weight.columns) for weight in weights.matrices if weight.name != "router"}
    held = habits.keeps_dummy_gradients and not plan.zero_stage >= 2
    each = habits.compute_weight_bytes if held else 0
    num_bytes = each * sum(rows * columns for rows, columns in shapes)
    return Term(
        "dummy gradients", Category.GRADIENT, num_bytes,
        f"{each} bytes · each of {len(shapes)} shapes once",
        "Transformer Engine: module/base.py, get_dummy_wgrad",
    )  # fmt: skip


def bucket_term(weights: StageWeights, plan: Plan, habits: Habits) -> Term:
    """Buckets in which DistributedDataParallel reduces, beside the gradients."""
    each = habits.bucket_bytes if plan.num_dense_replicas > 1 and plan.zero_stage == 0 else 0
    return _per_parameter(
        "reduction buckets", Category.GRADIENT, each, weights, plan, False,
        "Li et al.: PyTorch Distributed, VLDB 2020, section 3.2.3",
    )  # fmt: skip


def _per_parameter(
    name: str, category: str, each: float, weights: StageWeights, plan: Plan, is_sharded: bool, source: str
) -> Term:
    dense, expert = weights.num_dense_elements, weights.num_expert_elements
    over = _shards(plan) if is_sharded else (1, 1)
    num_bytes = round(each * (dense / over[0] + expert / over[1]))
    formula = f"{each:g} bytes · {dense:,}" + (f" / {over[0]}" if over[0] > 1 else "")
    if expert:
        formula += f" + {each:g} · {expert:,}" + (f" / {over[1]}" if over[1] > 1 else "")
    return Term(name, category, num_bytes, formula, source)
