"""The memory of inference under a plan, in closed form: weights, keys and values, one layer's work."""

from __future__ import annotations

import math

from perfcast.core.forecast.footprint import Moment, StageFootprint, Term
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.transformer import Transformer
from perfcast.core.weights import StageWeights, kv_heads_per_rank, layers_of_stages, stage_weights
from perfcast.errors import UnknownNameError
from perfcast.memory.footprint.activations import head_widths

#: Bytes of an element of weights, and of the cache.
_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
_CACHE = "Pope et al.: Efficiently Scaling Transformer Inference, MLSys 2023, section 3.3"
_LATENT = "DeepSeek-AI: DeepSeek-V2, 2024, section 2.1.2"


def serving_stage(
    model: Transformer,
    plan: Plan,
    dtype: str,
    sequence_length: int,
    stage: int,
    *,
    is_decode: bool,
    workspace_bytes: int = 0,
) -> StageFootprint:
    """One rank of a stage while it answers ``plan.micro_batch_size`` sequences.

    Raises:
        PlanError: A plan that cannot cut the model.
        UnknownNameError: A format that weights are not kept in.
    """
    if dtype not in _BYTES:
        raise UnknownNameError("dtype", dtype, _BYTES, f"Known: {', '.join(_BYTES)}.")
    layers = layers_of_stages(model, plan)
    weights = stage_weights(model, plan, stage, vocab_size=model.vocab_size, layers=layers)
    new_tokens = plan.micro_batch_size * (
        1 if is_decode else math.ceil(sequence_length / plan.context_parallel)
    )
    terms = (
        weight_term(weights, dtype),
        cache_term(model, plan, dtype, sequence_length, weights.num_layers),
        layer_term(model, plan, dtype, new_tokens),
        logit_term(model, plan, dtype, new_tokens if weights.holds_head else 0),
        Term("workspaces of products", Category.BUFFER, workspace_bytes, "one", "PyTorch: CUDABlas"),
    )
    moment = Moment("decode" if is_decode else "prefill", tuple(term for term in terms if term.num_bytes))
    return StageFootprint(stage, (moment,))


def weight_term(weights: StageWeights, dtype: str) -> Term:
    """Weights of the rank; embedding and head stay in 16 bits where the layers have 8."""
    each, outside = _BYTES[dtype], max(_BYTES[dtype], 2)
    words = sum(w.num_elements for w in (*weights.embedding, *weights.head))
    inside = weights.num_dense_elements + weights.num_expert_elements - words
    formula = f"{each} bytes · {inside:,} + {outside} · {words:,}"
    return Term("weights", Category.PARAMETER, each * inside + outside * words, formula, _CACHE)


def cache_term(model: Transformer, plan: Plan, dtype: str, sequence_length: int, num_layers: int) -> Term:
    """Keys and values of every token so far: 2 · layers · kv heads · head size · bytes a token.

    A pipeline holds the caches of the micro-batches that are under way; layers with a window keep no more
    tokens than it has.
    Latent attention keeps one compressed vector and the rotated part of the key, whole on every
    tensor-parallel rank.
    """
    latent = model.latent_attention
    if latent is not None:
        width, formula, source = latent.kv_rank + latent.rope_head_size, "(rank + rope)", _LATENT
    else:
        width = 2 * kv_heads_per_rank(model, plan.tensor_parallel) * model.head_size
        formula, source = "2 · kv heads · head size", _CACHE
    batches = min(plan.num_micro_batches, plan.pipeline_parallel)
    sequences = plan.micro_batch_size * batches
    whole = num_layers - round(num_layers * model.num_window_layers / model.num_layers)
    seen = min(sequence_length, model.sliding_window or sequence_length)
    rows = whole * math.ceil(sequence_length / plan.context_parallel)
    rows += (num_layers - whole) * math.ceil(seen / plan.context_parallel)
    return Term(
        "keys and values", Category.KV_CACHE, _BYTES[dtype] * sequences * rows * width,
        f"{_BYTES[dtype]} bytes · {sequences} sequences · {rows:,} tokens of layers · {formula} = {width}",
        source,
    )  # fmt: skip


def layer_term(model: Transformer, plan: Plan, dtype: str, new_tokens: int) -> Term:
    """The widest part of one layer: residual, normalised input, and what the MLP or attention makes of it."""
    gates = 2 if model.is_gated else 1
    mlp = (gates + 1) * model.ffn_hidden_size / plan.tensor_parallel
    if model.experts is not None:
        chosen = model.experts.experts_per_token * model.experts.ffn_hidden_size
        mlp = max(mlp, (gates + 1) * chosen / plan.tensor_parallel_of_experts)
    queries, keys, values = head_widths(model, plan.tensor_parallel)
    width = 2 * model.hidden_size + max(mlp, 2 * queries + keys + values)
    each = max(_BYTES[dtype], 2)
    return Term(
        "one layer's activations", Category.ACTIVATION, round(each * new_tokens * width),
        f"{each} bytes · {new_tokens:,} tokens · {width:,.0f}", "sum over the tensors of one layer",
    )  # fmt: skip


def logit_term(model: Transformer, plan: Plan, dtype: str, tokens: int) -> Term:
    """Logits of every position that is computed."""
    elements = tokens * math.ceil(model.vocab_size / plan.tensor_parallel)
    each = max(_BYTES[dtype], 2)
    return Term(
        "logits", Category.ACTIVATION, each * elements, f"{each} bytes · {elements:,}", "the head's product"
    )
