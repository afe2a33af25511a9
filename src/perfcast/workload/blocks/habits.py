"""Which kernels the programs that train models run for one and the same mathematics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from perfcast.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelHabits:
    """Kernels of one framework.

    Attributes:
        fuses_residual: Whether bias, dropout and the sum with the residual are one kernel.
        fuses_activation: Whether bias and activation, or gate and activation, are one kernel.
        joins_projections: Whether one product makes queries, keys and values, and one gate and up.
        rope: How queries are rotated, and keys: 'fused' (one kernel), 'complex' (a cast, a complex product
            and a cast back) or 'halves' (products with cosine and sine, a swap of halves and a sum).
        fuses_scores: Whether scale, mask and softmax of unfused attention are one kernel.
        fuses_norm: Whether an RMS norm is one kernel (a layer norm always is).
        fuses_accumulation: Whether the product that makes a weight's gradient adds to the buffer;
            ``fuses_narrow_accumulation``: also where gradients are summed in half precision.
        has_gradient_buffer: Whether gradients are summed in a buffer beside those of autograd.
        copies_heads: Whether queries, keys and values are copied out of their joint projection, and keys
            and values joined and laid out anew behind that.
        keeps_residual_in_fp32: Whether the residual stream has four bytes an element (autocast).
        casts_weights: Whether fp32 weights are cast for each forward, and gradients back.
        overlaps_input_gradient: Whether the reduction of the input's gradient runs beside the product of
            the weight's, and the gather of its input beside that of the input's gradient.
        gathers_again: Whether the backward gathers the sequence-parallel input of a column-parallel layer.
        stops_recompute_early: Whether recomputing a layer ends before its last product.
        cuts_vocabulary: Whether the loss is computed in steps over a cut vocabulary, in fp32.
        vocabulary_multiple: What the vocabulary is padded to a multiple of, times tensor parallelism.
        shards_gradients: Whether gradients are summed over micro-batches after they are scattered.
        balances_stages: Whether the head counts when layers are dealt out to stages.
        overlaps_gradients: Whether the program can reduce gradients beside the backward.
        overlaps_weights: Whether it can gather weights beside the compute.
        keeps_wide_gradients: Whether gradients are summed and reduced in fp32, but in training in fp16.
        keeps_half_weights: Whether weights are kept in half precision beside fp32 copies.
        optimizer_kernels: 'fused' (one pass) or 'foreach' (one pass for each step of the formula).
        scales_gradients: Whether clipping multiplies all gradients, whatever their norm.
        message_launches: Launches' worth of the host's work for the messages of one pass of a pipeline stage:
            the engine's instructions and metadata.
        source: Where this is written down.
    """

    fuses_residual: bool = False
    fuses_activation: bool = False
    joins_projections: bool = False
    rope: str = "fused"
    fuses_scores: bool = False
    fuses_norm: bool = True
    fuses_accumulation: bool = False
    fuses_narrow_accumulation: bool = True
    has_gradient_buffer: bool = False
    copies_heads: bool = False
    keeps_residual_in_fp32: bool = False
    casts_weights: bool = False
    overlaps_input_gradient: bool = False
    gathers_again: bool = False
    stops_recompute_early: bool = False
    cuts_vocabulary: bool = False
    vocabulary_multiple: int = 1
    shards_gradients: bool = False
    balances_stages: bool = False
    overlaps_gradients: bool = True
    overlaps_weights: bool = True
    keeps_wide_gradients: bool = False
    keeps_half_weights: bool = True
    optimizer_kernels: str = "fused"
    scales_gradients: bool = False
    message_launches: int = 0
    source: str


@lru_cache(maxsize=1)
def _table() -> Mapping[str, KernelHabits]:
    megatron = KernelHabits(
        fuses_residual=True, fuses_activation=True, joins_projections=True, fuses_scores=True,
        fuses_accumulation=True, has_gradient_buffer=True, overlaps_input_gradient=True, gathers_again=True,
        cuts_vocabulary=True, vocabulary_multiple=128, keeps_wide_gradients=True,
        source="Megatron-LM: core/fusions, core/tensor_parallel/layers.py, core/optimizer; Transformer "
        "Engine: module/layernorm_linear.py",
    )  # fmt: skip
    deepspeed = replace(
        megatron, fuses_accumulation=False, rope="halves", overlaps_input_gradient=False,
        gathers_again=False, overlaps_gradients=False, overlaps_weights=False, scales_gradients=True,
        message_launches=24,
        source="Megatron-DeepSpeed: megatron/model/transformer.py, fused_kernels, mpu/layers.py; DeepSpeed: "
        "runtime/bf16_optimizer.py",
    )  # fmt: skip
    return {
        "megatron": megatron,
        "megatron_local": replace(
            megatron, rope="halves", fuses_narrow_accumulation=False, overlaps_gradients=False,
            overlaps_weights=False, gathers_again=True,
            source="Megatron-LM v3: megatron/model/transformer.py, fused_kernels, mpu/layers.py and "
            "arguments.py (products add to fp32 gradients, never to narrower ones), model/distributed.py "
            "(others are added to a buffer by hooks; all are reduced after the pipeline)",
        ),
        "nanotron": KernelHabits(
            joins_projections=True, cuts_vocabulary=True, has_gradient_buffer=True, copies_heads=True,
            overlaps_input_gradient=True, gathers_again=True, balances_stages=True, overlaps_weights=False,
            keeps_wide_gradients=True, scales_gradients=True, message_launches=12,
            source="nanotron: models/llama.py, nn/layer_norm.py, parallel/tensor_parallel/functional.py, "
            "optim/gradient_accumulator.py, optim/zero.py",
        ),
        "deepspeed": deepspeed,
        "fsdp": KernelHabits(
            rope="complex", shards_gradients=True, keeps_half_weights=False,
            stops_recompute_early=True, scales_gradients=True,
            source="PyTorch: distributed/fsdp/_fully_shard, utils/checkpoint.py; torchtitan: "
            "models/llama3/model.py",
        ),
        "pytorch": KernelHabits(
            rope="halves", casts_weights=True, keeps_half_weights=False,
            stops_recompute_early=True, keeps_wide_gradients=True, optimizer_kernels="foreach",
            keeps_residual_in_fp32=True, fuses_norm=False,
            source="PyTorch: amp/autocast_mode.py (lists of operators), optim/adamw.py",
        ),
    }  # fmt: skip


def kernel_habits(framework: str) -> KernelHabits:
    """Habits of a framework.

    Raises:
        UnknownNameError: None of those of ``core.training.FRAMEWORKS``.
    """
    table = _table()
    if framework not in table:
        raise UnknownNameError("framework", framework, tuple(table), f"Known: {', '.join(table)}.")
    return table[framework]
