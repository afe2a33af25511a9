"""Attention of one rank while a model answers: against prompts, or one query against the cache."""

from __future__ import annotations

import math
from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.model.heads import cached_width
from perfcast.core.model.transformer import LatentAttention
from perfcast.core.operation import Operation
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Calls, Stream
from perfcast.errors import ModelError
from perfcast.workload.blocks.attention.indexer import pick_tokens
from perfcast.workload.blocks.kernels import attention, batched_product, elementwise, tensor
from perfcast.workload.blocks.serving.kernels import (
    cache_write,
    cached_attention,
    formatted_product,
    fused_norm,
    mean_visible,
    rotation,
)
from perfcast.workload.blocks.serving.parts import linear
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.tape import Tape

#: Modules whose work depends on what a sequence holds, or on how it is read, beside the number of tokens.
CONTEXT_MODULES = frozenset(
    {
        "attention.core",
        "attention.expand",
        "attention.keys",
        "attention.absorb",
        "attention.release",
        "attention.index",
    }
)


def plain_attention(setting: Serving, window: int) -> Calls:
    """Queries, keys and values in one product, rotation, the cache, attention, the output's product."""
    tape, model = Tape(), setting.model
    heads, width = setting.heads, cached_width(model, setting.plan.tensor_parallel)
    tokens, element = setting.tokens, setting.precision.element
    gate = heads.query_width if model.has_attention_gate else 0
    linear(tape, setting, tokens, heads.joint_width + gate, model.hidden_size, "attention.qkv")
    _norm_heads(tape, setting)
    if model.positions == "rope":
        size = model.rope_size or heads.size
        _rotate(tape, setting, heads.queries * size, heads.keys * size, width)
    else:
        tape.run(cache_write(tokens, width, setting.precision), "attention.cache")
    _gather_keys(tape, setting, width)
    queries, beside = _queries_beside(setting)
    sizes = (setting.batch_size, beside * heads.queries, heads.keys, queries, setting.num_keys, heads.size)
    if model.is_causal:
        core = cached_attention(*sizes, setting.precision, window=window)
    else:
        core = attention(*sizes, element, causal=False)
    tape.run(core, "attention.core")
    _merge_parts(tape, setting, heads.output_width)
    if gate:
        x = tensor(element, tokens, gate)
        tape.run(elementwise("sigmoid_mul", (x, x), (x,), flops_per_element=4), "attention.gate")
    linear(tape, setting, tokens, model.hidden_size, heads.output_width, "attention.output")
    return tape.calls()


def _norm_heads(tape: Tape, setting: Serving) -> None:
    """Each head of queries and keys, or all of them together, whose squares the ranks then sum.

    (vLLM: layers/mamba/linear_attn.py, MiniMaxText01RMSNormTP.forward_qk, as models/minimax_m2.py calls it.)
    """
    model, heads, tokens, element = setting.model, setting.heads, setting.tokens, setting.precision.element
    if not model.has_head_norms:
        return
    if not model.joins_head_norms:
        rows = tokens * (heads.queries + heads.keys)
        for operation in fused_norm("rmsnorm", rows, heads.size, element, adds=False):
            tape.run(operation, "attention.head_norms")
        return
    tape.collective(
        "all_reduce", DType.FP32.bytes_of(2 * tokens), group_of(setting.plan, "tensor"), Stream.TENSOR,
        "attention.head_norms", world_size=setting.plan.world_size, dtype=DType.FP32,
        reads_peers=setting.profile.reads_peers,
    )  # fmt: skip
    for width in (heads.query_width, heads.key_width):
        for operation in fused_norm("rmsnorm", tokens, width, element, adds=False):
            tape.run(operation, "attention.head_norms")


def latent_attention(setting: Serving, window: int) -> Calls:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1 and appendix C).

    The cache keeps the compressed vector and the rotated key of each token. A prompt expands them to keys
    and values of each head. A new token goes the other way: its queries are multiplied into the latent
    space, attention is against the compressed vectors themselves, and its result is multiplied out.
    Where an indexer picks the tokens, prompts go that way too, and a query sees as many keys as with a window
    of that size (FlashMLA: flash_mla_sparse_fwd; vLLM: v1/attention/backends/mla/flashmla_sparse.py).
    """
    latent = setting.model.latent_attention
    if latent is None:
        raise ModelError("latent attention in a model without it")
    tape, heads = Tape(), setting.heads
    _compress(tape, setting, latent)
    _queries(tape, setting, latent)
    width = cached_width(setting.model)
    _rotate(tape, setting, heads.queries * latent.rope_head_size, latent.rope_head_size, width)
    sparse = setting.model.sparse_attention
    if sparse is not None:
        pick_tokens(tape, setting, sparse, latent.query_rank or setting.model.hidden_size)
        window = sparse.kept_tokens
    _gather_keys(tape, setting, width)
    is_absorbed = setting.is_decode or sparse is not None
    (_absorbed if is_absorbed else _expanded)(tape, setting, latent, window)
    hidden = setting.model.hidden_size
    linear(tape, setting, setting.tokens, hidden, heads.output_width, "attention.output")
    return tape.calls()


def _rotate(tape: Tape, setting: Serving, queries: int, keys: int, cached: int) -> None:
    """Queries and keys turned, new keys and values put into the cache: a kernel for each, or by attention."""
    tokens, precision = setting.tokens, setting.precision
    if setting.profile.attention_rotates:
        return
    tape.run(rotation(tokens, queries + keys, precision.element), "attention.rope")
    tape.run(cache_write(tokens, cached, precision), "attention.cache")


def _compress(tape: Tape, setting: Serving, latent: LatentAttention) -> None:
    """Queries and keys-values are compressed by one product; norms of both."""
    hidden, element, tokens = setting.model.hidden_size, setting.precision.element, setting.tokens
    compressed = latent.kv_rank + latent.rope_head_size + (latent.query_rank or 0)
    linear(tape, setting, setting.tokens, compressed, hidden, "attention.compress")
    for size in filter(None, (latent.query_rank, latent.kv_rank)):
        for operation in fused_norm(setting.model.norm, tokens, size, element, adds=False):
            tape.run(operation, "attention.compress_norm")


def _queries(tape: Tape, setting: Serving, latent: LatentAttention) -> None:
    depth = latent.query_rank or setting.model.hidden_size
    linear(tape, setting, setting.tokens, setting.heads.query_width, depth, "attention.queries")


def _expanded(tape: Tape, setting: Serving, latent: LatentAttention, window: int) -> None:
    heads, element = setting.heads, setting.precision.element
    keys = setting.batch_size * setting.num_keys
    expanded = heads.queries * (latent.nope_head_size + latent.value_head_size)
    linear(tape, setting, keys, expanded, latent.kv_rank, "attention.expand")
    part = tensor(element, keys, heads.queries * latent.nope_head_size)
    whole = tensor(element, keys, heads.key_width)
    tape.run(elementwise("cat", (part,), (whole,), flops_per_element=0), "attention.keys")
    tape.run(
        cached_attention(
            setting.batch_size, heads.queries, heads.keys, setting.num_queries, setting.num_keys, heads.size,
            setting.precision, value_head_size=heads.value_size, window=window, is_latent=True,
        ),
        "attention.core",
    )  # fmt: skip


def _absorbed(tape: Tape, setting: Serving, latent: LatentAttention, window: int) -> None:
    heads, element, tokens = setting.heads.queries, setting.precision.element, setting.tokens
    into = batched_product(heads, tokens, latent.kv_rank, latent.nope_head_size, "nn", element, element)
    out = batched_product(heads, tokens, latent.value_head_size, latent.kv_rank, "nn", element, element)
    tape.run(into, "attention.absorb")
    queries, beside = _queries_beside(setting)
    if setting.model.sparse_attention is not None and queries > 1:
        tape.run(_attention_as_product(setting, latent, window), "attention.core")
        tape.run(out, "attention.release")
        return
    tape.run(
        cached_attention(
            setting.batch_size, beside * heads, 1, queries, setting.num_keys,
            latent.kv_rank + latent.rope_head_size, setting.precision, value_head_size=latent.kv_rank,
            window=window, is_latent=True, is_stand_in=setting.model.sparse_attention is not None,
        ),
        "attention.core",
    )  # fmt: skip
    _merge_parts(tape, setting, heads * latent.kv_rank)
    tape.run(out, "attention.release")


#: Heads that kernels of sparse latent attention take at least (vLLM: flashmla_sparse.py, FlashMLASparseImpl:
#: 64 on Hopper, and 128 in its first kernels for Blackwell); of new tokens memory and latency hide them.
_SPARSE_HEADS = 64


def _attention_as_product(setting: Serving, latent: LatentAttention, window: int) -> Operation:
    """Sparse attention of prompts: a product of as many multiply-adds, which no measured attention is like.

    Each query has keys of its own, gathered from the cache: heads · (latent and rotated part, and latent
    again) · keys. The kernel reaches two thirds of the peak (FlashMLA, README: 640 TFLOP/s on an H800, 1450
    on a B200), as large products do; forecasts of attention with heads as wide fall far below.
    """
    keys = mean_visible(setting.num_queries, setting.num_keys, window)
    rows = setting.tokens * math.ceil(setting.heads.queries / _SPARSE_HEADS) * _SPARSE_HEADS
    depth = 2 * latent.kv_rank + latent.rope_head_size
    element = setting.precision.element
    plain = formatted_product(rows, max(1, round(keys)), depth, element.label, element=element)
    attributes = tuple(sorted({**dict(plain.attributes), "is_stand_in": True}.items()))
    return replace(plain, attributes=attributes)


def _queries_beside(setting: Serving) -> tuple[int, int]:
    """Queries of a sequence one behind the other, and side by side as if they were heads.

    Drafted tokens of a sequence stand beside its new one, since all read the same keys (FlashAttention:
    pack_gqa; FlashMLA: s_q); the few keys that they have of each other count as seen by all.
    """
    return (1, setting.num_queries) if setting.is_decode else (setting.num_queries, 1)


def _gather_keys(tape: Tape, setting: Serving, width: int) -> None:
    """A prompt cut along its sequence: every rank gathers all keys and values (Llama 3, section 3.3.2)."""
    plan, keys = setting.plan, setting.precision.cache.element
    if setting.is_decode:
        return
    tape.collective(
        "all_gather", keys.bytes_of(setting.batch_size * setting.context_length * width),
        group_of(plan, "context"), Stream.CONTEXT, "attention.keys",
        world_size=plan.world_size, dtype=keys,
    )  # fmt: skip


def _merge_parts(tape: Tape, setting: Serving, width: int) -> None:
    """A cache cut along its sequence: each rank's output and its statistic go to all, who weigh and add."""
    plan, element, parts = setting.plan, setting.precision.element, setting.plan.context_parallel
    if not setting.is_decode or parts == 1:
        return
    each = element.bytes_of(setting.tokens * width) + DType.FP32.bytes_of(
        setting.tokens * setting.heads.queries
    )
    tape.collective(
        "all_gather", parts * each, group_of(plan, "context"), Stream.CONTEXT, "attention.merge",
        world_size=plan.world_size, dtype=element,
    )  # fmt: skip
    every, one = tensor(element, parts * setting.tokens, width), tensor(element, setting.tokens, width)
    tape.run(elementwise("merge_attention", (every,), (one,), flops_per_element=3), "attention.merge")
