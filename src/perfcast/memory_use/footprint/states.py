"""Weights, gradients and optimizer state of a rank.

Mixed precision with Adam holds 2 + 4 + 4 + 8 bytes a parameter, or 2 + 2 + 4 + 8 where gradients are summed
in half precision; ZeRO divides optimizer state (stage 1), gradients (2) and weights (3) by the number of
ranks that hold the same (Rajbhandari et al.: ZeRO, SC 2020, section 3; Megatron-LM: docs, distributed
optimizer: 4 + 14 / d or 6 + 12 / d bytes).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.tuning.trained import NF4_BYTES
from perfcast.frameworks.profile import MemoryProfile
from perfcast.memory_use.footprint.ranks import Ranks
from perfcast.memory_use.footprint.terms import TermColumn

#: Bytes of the moments of an element.
MOMENT_BYTES = {
    "none": 0.0, "sgd": 0.0, "momentum": 4.0, "adam": 8.0, "adamw": 8.0,
    # two of a byte, each with an fp32 scale per block of 256 (Dettmers et al., ICLR 2022, section 2.1)
    "adamw_8bit": 2 * (1 + 4 / 256),
}  # fmt: skip
#: Of one of them, where a program keeps them as usual.
_MOMENT_BYTES = 4.0
#: A stage of ZeRO that there is none of: what is sharded from it on is never sharded.
_NEVER = 4
#: How terms of weights begin that stay as they are.
FROZEN = "frozen weights"
_LORA = "Hu et al.: LoRA, ICLR 2022, section 4.2"
_QLORA = "Dettmers et al.: QLoRA, NeurIPS 2023, section 3"
_ZERO = "Rajbhandari et al.: ZeRO, SC 2020, section 3"


def state_terms(ranks: Ranks, training: Training, profile: MemoryProfile) -> Iterator[TermColumn]:
    """What stays from step to step; gradients too, which exist in every peak candidate."""
    yield from weight_terms(ranks, training, profile)
    yield gradient_term(ranks, profile)
    if profile.local_gradient_bytes:
        yield local_gradient_term(ranks, profile)
    if profile.has_master_weights:
        yield master_term(ranks)
    yield moment_term(ranks, training, profile.moment_bytes)
    if profile.keeps_dummy_gradients:
        yield dummy_gradient_term(ranks, profile)
    if profile.bucket_bytes:
        yield bucket_term(ranks, profile)


def weight_terms(ranks: Ranks, training: Training, profile: MemoryProfile) -> Iterator[TermColumn]:
    """Weights as they are kept; sharded with ZeRO 3, on the host where parameters are offloaded.

    A model beside adapters is kept in the products' format or in four bits, without a wider copy.
    """
    here = np.where(ranks.plans.has_word("offload", "parameters"), 0.0, 1.0)
    own, shards, figures = profile.weight_bytes, _shards(ranks, 3), ranks.weights
    if training.tuning.adapters is None:
        amounts = ranks.amounts(figures.elements)
        yield _per_parameter("weights", Category.PARAMETER, own * here, amounts, shards, profile.source)
        return
    narrow = profile.compute_weight_bytes
    for name, each, parts, source in (
        ("adapters", own, figures.trained, profile.source),
        (FROZEN, narrow, figures.frozen, _LORA),
        (f"{FROZEN} in four bits", NF4_BYTES, figures.quantised, _QLORA),
    ):
        amounts = ranks.amounts(parts)
        yield _per_parameter(name, Category.PARAMETER, each * here, amounts, shards, source)


def gradient_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """The buffer of summed gradients; sharded from ZeRO 2 on."""
    each = np.where(ranks.plans.has_word("offload", "parameters"), 0.0, profile.gradient_bytes)
    return _per_parameter(
        "gradients", Category.GRADIENT, each, _trained(ranks), _shards(ranks, 2), profile.source
    )


def local_gradient_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """Gradients as autograd hands them over, where they stay beside the buffer; not from ZeRO 2 on."""
    each = np.where(ranks.plans.zero_stage < 2, profile.local_gradient_bytes, 0.0)
    return _per_parameter(
        "local gradients", Category.GRADIENT, each, _trained(ranks), _shards(ranks, _NEVER), profile.source
    )


def whole_gradient_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """Gradients of a stage that sums them whole over its micro-batches, beside the shards that stay."""
    plans = ranks.plans
    sums = (plans.zero_stage >= 2) & (plans.pipeline_parallel > 1) & (plans.num_micro_batches > 1)
    each = np.where(sums, profile.sent_gradient_bytes, 0.0)
    source = "PyTorch: distributed/pipelining/stage.py, backward_maybe_with_nosync"
    return _per_parameter(
        "whole gradients of a stage", Category.GRADIENT, each, _trained(ranks), _shards(ranks, _NEVER), source
    )


def master_term(ranks: Ranks) -> TermColumn:
    """The optimizer's fp32 copy of half-precision weights; sharded from ZeRO 1 on."""
    each = np.where(_has_optimizer_on_host(ranks), 0.0, 4.0)
    return _per_parameter(
        "master weights", Category.OPTIMIZER_STATE, each, _trained(ranks), _shards(ranks, 1), _ZERO
    )


def moment_term(ranks: Ranks, training: Training, moment_bytes: float = _MOMENT_BYTES) -> TermColumn:
    """The optimizer's moments; sharded from ZeRO 1 on, on the host where it is offloaded."""
    name, category, shards = f"moments of {training.optimizer}", Category.OPTIMIZER_STATE, _shards(ranks, 1)
    on_host = _has_optimizer_on_host(ranks)
    if training.optimizer in MOMENT_BYTES:
        wide = 1.0 if training.optimizer.endswith("8bit") else moment_bytes / _MOMENT_BYTES
        each = np.where(on_host, 0.0, wide * MOMENT_BYTES[training.optimizer])
        return _per_parameter(name, category, each, _trained(ranks), shards, _ZERO)
    if training.optimizer == "muon":
        formula = "4 bytes of momentum a weight of the layers' matrices; Adam's 8 for all others"
        source = "Jordan et al.: Muon, 2024; Liu et al.: Muon is scalable, 2025, section 2"
    else:
        formula = "4 bytes · (rows + columns) of each matrix, 4 · size of a vector"
        source = "Shazeer and Stern: Adafactor, ICML 2018, section 3"
    dense, expert = ranks.trained_amounts(ranks.weights.moment_bytes)
    num_bytes = np.where(on_host, 0.0, np.rint(dense / shards[0] + expert / shards[1]))
    return TermColumn(name, category, num_bytes, formula, source)


def dummy_gradient_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """One gradient of each shape that occurs among the layers' matrices, filled by no one."""
    each, count = profile.compute_weight_bytes, ranks.of_kinds(ranks.weights.num_shapes)
    num_bytes = np.where(
        ranks.plans.zero_stage >= 2, 0.0, each * ranks.of_kinds(ranks.weights.shape_elements)
    )
    return TermColumn(
        "dummy gradients",
        Category.GRADIENT,
        num_bytes,
        lambda row: f"{each} bytes · each of {count[row]:.0f} shapes once",
        "Transformer Engine: module/base.py, get_dummy_wgrad",
    )


def bucket_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """Buckets in which DistributedDataParallel reduces, beside the gradients."""
    reduces = (ranks.plans.num_dense_replicas > 1) & (ranks.plans.zero_stage == 0)
    each = np.where(reduces, profile.bucket_bytes, 0.0)
    source = "Li et al.: PyTorch Distributed, VLDB 2020, section 3.2.3"
    return _per_parameter(
        "reduction buckets", Category.GRADIENT, each, _trained(ranks), _shards(ranks, _NEVER), source
    )


def _has_optimizer_on_host(ranks: Ranks) -> Flags:
    return ranks.plans.has_word("offload", "optimizer", "parameters")


def _shards(ranks: Ranks, zero_stage: int) -> tuple[Integers, Integers]:
    """Ranks over which dense weights and experts are sharded from a stage of ZeRO on, shape [n] each."""
    is_sharded, shards = ranks.plans.zero_stage >= zero_stage, ranks.plans.shard_size
    expert_shards = np.minimum(shards, ranks.plans.num_expert_replicas)
    return np.where(is_sharded, shards, 1), np.where(is_sharded, expert_shards, 1)


def _trained(ranks: Ranks) -> tuple[Floats, Floats]:
    """Parameters that have gradients: dense ones, and those of experts."""
    return ranks.trained_amounts(ranks.weights.trained)


def _per_parameter(
    name: str,
    category: str,
    each: Floats,
    amounts: tuple[Floats, Floats],
    shards: tuple[Integers, Integers],
    source: str,
) -> TermColumn:
    dense, expert = amounts
    num_bytes = np.rint(each * (dense / shards[0] + expert / shards[1]))

    def formula(row: int) -> str:
        over_dense, over_expert = (over[row] for over in shards)
        text = f"{each[row]:g} bytes · {dense[row]:,.0f}" + (f" / {over_dense}" if over_dense > 1 else "")
        if expert[row]:
            text += f" + {each[row]:g} · {expert[row]:,.0f}"
            text += f" / {over_expert}" if over_expert > 1 else ""
        return text

    return TermColumn(name, category, num_bytes, formula, source)
