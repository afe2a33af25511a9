"""The memory of inference under a plan, in closed form: weights, keys and values, one layer's work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.forecast.footprint import StageFootprint
from perfcast.core.plan import Plan
from perfcast.core.plan_table import PlanTable, to_table
from perfcast.core.tensor import Category
from perfcast.core.training import DTYPES
from perfcast.core.transformer import Transformer
from perfcast.core.weights import kv_heads_per_rank
from perfcast.errors import UnknownNameError
from perfcast.memory.footprint.activations import head_widths
from perfcast.memory.footprint.combinations import ByCombination, Combinations
from perfcast.memory.footprint.ranks import Ranks, ranks_of_stages
from perfcast.memory.footprint.stage_layers import deal_out_layers
from perfcast.memory.footprint.terms import PeakCandidateColumn, TermColumn, TermGroup
from perfcast.memory.footprint.weight_figures import weight_figures

#: Bytes of an element of weights, and of the cache.
_BYTES: Mapping[str, int] = {name: DTYPES_BY_LABEL[name].bytes_of(1) for name in DTYPES}
_CACHE = "Pope et al.: Efficiently Scaling Transformer Inference, MLSys 2023, section 3.3"
_LATENT = "DeepSeek-AI: DeepSeek-V2, 2024, section 2.1.2"
#: Columns on which the work of a rank depends.
_DEGREES = ("tensor_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel",
            "micro_batch_size")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServingSetting:
    """What is served.

    Attributes:
        dtype: Of weights and cache.
        sequence_length: Of the prompt; for decode, tokens in the cache.
    """

    model: Transformer
    dtype: str
    sequence_length: int
    is_decode: bool
    workspace_bytes: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in _BYTES:
            raise UnknownNameError("dtype", self.dtype, _BYTES, f"Known: {', '.join(_BYTES)}.")

    @property
    def element_bytes(self) -> int:
        """Of the layers' weights and of the cache."""
        return _BYTES[self.dtype]

    @property
    def outer_bytes(self) -> int:
        """Of embedding, head and activations, which stay in 16 bits where the layers have 8."""
        return max(self.element_bytes, 2)


@dataclass(frozen=True, eq=False, slots=True)
class ServingFigures:
    """Of a rank, in elements but for tokens; shape [n] or, by combination, [k] each.

    Attributes:
        new_tokens: That are computed at once.
        layer_width: Of a token, the widest part of one layer: residual, normalised input, and what the MLP or
            attention makes of it.
        cache_width: Of a token and layer.
        cached_tokens, window_tokens: Of a sequence, on a layer without and with a window.
        vocabulary: Logits of a token.
    """

    new_tokens: Floats
    layer_width: Floats
    cache_width: Floats
    cached_tokens: Floats
    window_tokens: Floats
    vocabulary: Floats


def serving_stages(setting: ServingSetting, plan: Plan) -> tuple[StageFootprint, ...]:
    """One rank of each stage while it answers ``plan.micro_batch_size`` sequences.

    Raises:
        PlanError: A plan that cannot cut the model.
    """
    if plan.schedule == "dualpipe":  # which holds a second part of the model for its backward alone
        plan = replace(plan, schedule="1f1b")
    stages, table = np.arange(plan.pipeline_parallel), to_table([plan])
    rows = np.zeros_like(stages)
    layers = deal_out_layers(setting.model, table, balances_head=False).take(rows)
    weights = weight_figures(setting.model, table).take(rows)
    ranks = ranks_of_stages(setting.model, table.take(rows), weights, layers, stages)
    terms = TermGroup(serving_terms(setting, ranks, serving_figures(setting, table).take(rows)))
    name = "decode" if setting.is_decode else "prefill"
    candidate = PeakCandidateColumn(name, np.ones(len(stages), dtype=np.bool_), (terms,))
    return tuple(StageFootprint(stage, (candidate.row(stage),)) for stage in stages.tolist())


def serving_figures(setting: ServingSetting, plans: PlanTable) -> ByCombination[ServingFigures]:
    """Sizes of a token's work and of its cache."""
    cuts = Combinations(plans, _DEGREES)
    return ByCombination(ServingFigures(**cuts.columns(lambda plan: _figures(setting, plan))), cuts.place)


def _figures(setting: ServingSetting, plan: Plan) -> dict[str, float]:
    model, length = setting.model, setting.sequence_length
    gates = 2 if model.is_gated else 1
    mlp = (gates + 1) * model.ffn_hidden_size / plan.tensor_parallel
    if model.experts is not None:
        chosen = model.experts.experts_per_token * model.experts.ffn_hidden_size
        mlp = max(mlp, (gates + 1) * chosen / plan.tensor_parallel_of_experts)
    queries, keys, values = head_widths(model, plan.tensor_parallel)
    cached = math.ceil(length / plan.context_parallel)
    return {
        "new_tokens": plan.micro_batch_size * (1 if setting.is_decode else cached),
        "layer_width": 2 * model.hidden_size + max(mlp, 2 * queries + keys + values),
        "cache_width": _cache_width(model, plan.tensor_parallel),
        "cached_tokens": cached,
        "window_tokens": math.ceil(min(length, model.sliding_window or length) / plan.context_parallel),
        "vocabulary": math.ceil(model.vocab_size / plan.tensor_parallel),
    }


def _cache_width(model: Transformer, tensor_parallel: int) -> int:
    """Keys and values; of latent attention one compressed vector and the rotated part of the key, whole."""
    latent = model.latent_attention
    if latent is not None:
        return latent.kv_rank + latent.rope_head_size
    return 2 * kv_heads_per_rank(model, tensor_parallel) * model.head_size


def serving_terms(setting: ServingSetting, ranks: Ranks, figures: ServingFigures) -> Iterator[TermColumn]:
    """All that a rank holds."""
    yield weight_term(setting, ranks)
    if setting.model.is_causal:  # an encoder reads no earlier tokens
        yield cache_term(setting, ranks, figures)
    yield layer_term(setting, figures)
    yield logit_term(setting, ranks, figures)
    workspace = np.full(len(ranks.plans), float(setting.workspace_bytes))
    yield TermColumn("workspaces of products", Category.BUFFER, workspace, "one", "PyTorch: CUDABlas")


def weight_term(setting: ServingSetting, ranks: Ranks) -> TermColumn:
    """Weights of the rank; embedding and head stay in 16 bits where the layers have 8."""
    each, outer = setting.element_bytes, setting.outer_bytes
    outside = ranks.outside(ranks.weights.elements)
    inside = sum(ranks.amounts(ranks.weights.elements)) - outside
    return TermColumn(
        "weights",
        Category.PARAMETER,
        each * inside + outer * outside,
        lambda row: f"{each} bytes · {inside[row]:,.0f} + {outer} · {outside[row]:,.0f}",
        _CACHE,
    )


def cache_term(setting: ServingSetting, ranks: Ranks, figures: ServingFigures) -> TermColumn:
    """Keys and values of every token so far: 2 · layers · kv heads · head size · bytes a token.

    A pipeline holds the caches of the micro-batches that are under way; layers with a window keep no more
    tokens than it has.
    """
    model, each, plans = setting.model, setting.element_bytes, ranks.plans
    under_way = np.minimum(plans.num_micro_batches, plans.pipeline_parallel)
    sequences = plans.micro_batch_size * under_way
    windowed = np.rint(ranks.num_layers * model.num_window_layers / model.num_layers)
    rows = (ranks.num_layers - windowed) * figures.cached_tokens + windowed * figures.window_tokens
    words = "2 · kv heads · head size" if model.latent_attention is None else "(rank + rope)"

    def formula(row: int) -> str:
        width = f"{words} = {figures.cache_width[row]:.0f}"
        return f"{each} bytes · {sequences[row]} sequences · {rows[row]:,.0f} tokens of layers · {width}"

    return TermColumn(
        "keys and values",
        Category.KV_CACHE,
        each * sequences * rows * figures.cache_width,
        formula,
        _CACHE if model.latent_attention is None else _LATENT,
    )


def layer_term(setting: ServingSetting, figures: ServingFigures) -> TermColumn:
    """The widest part of one layer."""
    each, tokens, width = setting.outer_bytes, figures.new_tokens, figures.layer_width
    return TermColumn(
        "one layer's activations",
        Category.ACTIVATION,
        np.rint(each * tokens * width),
        lambda row: f"{each} bytes · {tokens[row]:,.0f} tokens · {width[row]:,.0f}",
        "sum over the tensors of one layer",
    )


def logit_term(setting: ServingSetting, ranks: Ranks, figures: ServingFigures) -> TermColumn:
    """Logits of every position that is computed."""
    each = setting.outer_bytes
    elements = np.where(ranks.has_head, figures.new_tokens * figures.vocabulary, 0.0)
    return TermColumn(
        "logits",
        Category.ACTIVATION,
        each * elements,
        lambda row: f"{each} bytes · {elements[row]:,.0f}",
        "the head's product",
    )
