"""The memory of inference under a plan, in closed form: weights, keys and values, one layer's work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.forecast.footprint import StageFootprint
from perfcast.core.model.attention_weights import attention_weights, count_elements, linear_excess
from perfcast.core.model.cache import beside_bytes, linear_state_bytes
from perfcast.core.model.heads import cached_width, heads_of_rank
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.precision import Precision
from perfcast.core.tensor import Category
from perfcast.memory_use.footprint.ranks import Ranks, ranks_of_stages
from perfcast.memory_use.footprint.stage_layers import deal_out_layers
from perfcast.memory_use.footprint.terms import PeakCandidateColumn, TermColumn, TermGroup
from perfcast.memory_use.footprint.weight_figures import weight_figures

_CACHE = "Pope et al.: Efficiently Scaling Transformer Inference, MLSys 2023, section 3.3"
_LATENT = "DeepSeek-AI: DeepSeek-V2, 2024, section 2.1.2"


@dataclass(frozen=True, slots=True)
class ServingSetting:
    """What is served.

    Attributes:
        precision: Of weights, activations and cache.
        sequence_length: Of the prompt; for decode, tokens in the cache.
        step_tokens: That the program reads at once, of all prompts and answers; None: whatever is asked.
    """

    model: Transformer
    precision: Precision
    sequence_length: int
    is_decode: bool
    workspace_bytes: int = 0
    step_tokens: int | None = None

    @property
    def weight_bytes(self) -> float:
        """Bytes of an element of the layers' weights, with its share of a scale."""
        return self.precision.weight.bytes_per_element

    @property
    def cache_bytes(self) -> float:
        """Bytes of an element of keys and values."""
        return self.precision.cache.bytes_per_element

    @property
    def outer_bytes(self) -> int:
        """Bytes of an element of embedding, head and activations: two or more."""
        return self.precision.element.bytes_of(1)


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
    terms = TermGroup(serving_terms(setting, plan, ranks))
    name = "decode" if setting.is_decode else "prefill"
    candidate = PeakCandidateColumn(name, np.ones(len(stages), dtype=np.bool_), (terms,))
    return tuple(StageFootprint(stage, (candidate.row(stage),)) for stage in stages.tolist())


def serving_terms(setting: ServingSetting, plan: Plan, ranks: Ranks) -> Iterator[TermColumn]:
    """All that the ranks of the stages of one plan hold."""
    new_tokens, positions = tokens_of_step(setting, plan)
    everywhere = np.ones(len(ranks.plans))
    yield weight_term(setting, plan, ranks)
    if setting.model.is_causal:  # an encoder reads no earlier tokens
        yield cache_term(setting, plan, ranks)
    yield layer_term(setting, plan, new_tokens * everywhere)
    yield logit_term(setting, plan, np.where(ranks.has_head, positions, 0.0))
    workspace = setting.workspace_bytes * everywhere
    yield TermColumn("workspaces of products", Category.BUFFER, workspace, "one", "PyTorch: CUDABlas")


def tokens_of_step(setting: ServingSetting, plan: Plan) -> tuple[int, int]:
    """Tokens that a rank computes at once, and how many of them have logits.

    A serving program reads prompts in steps of so many tokens, among which those of answers are, and sets
    memory aside for the largest such step, whatever it does afterwards: prompts and answers then take the
    same. Others read all prompts at once, with the logits of every position.
    """
    sequences = plan.micro_batch_size
    prompts = sequences * math.ceil(setting.sequence_length / plan.context_parallel)
    if setting.step_tokens is None:
        tokens = sequences if setting.is_decode else prompts
        return tokens, tokens
    return max(min(prompts, setting.step_tokens), sequences), sequences


def weight_term(setting: ServingSetting, plan: Plan, ranks: Ranks) -> TermColumn:
    """Weights of the rank with their scales; embedding and head stay wide where the layers are not.

    So do attention, and dense MLPs with shared experts, where the precision says so.
    """
    model, precision, outer = setting.model, setting.precision, setting.outer_bytes
    outside = ranks.outside(ranks.weights.elements)
    shared, experts = ranks.amounts(ranks.weights.elements)
    attention = ranks.num_layers * count_elements(attention_weights(model, plan.tensor_parallel))
    linear = ranks.holding.linear_layers * linear_excess(model, plan.tensor_parallel)
    parts = (
        (attention + linear, precision.weight_of("attention").bytes_per_element),
        (shared - outside - attention, precision.weight_of("mlp").bytes_per_element),
        (experts, setting.weight_bytes),
    )
    inside = sum(np.ceil(elements * each) for elements, each in _of_one_width(parts))

    def formula(row: int) -> str:
        terms = [f"{each:.6g} bytes · {elements[row]:,.0f}" for elements, each in _of_one_width(parts)]
        return " + ".join((*terms, f"{outer} · {outside[row]:,.0f}"))

    return TermColumn("weights", Category.PARAMETER, inside + outer * outside, formula, _CACHE)


def _of_one_width(parts: tuple[tuple[Floats, float], ...]) -> list[tuple[Floats, float]]:
    """Elements of each width, in the order of the parts."""
    widths = dict.fromkeys(each for _, each in parts)
    zero = np.zeros_like(parts[0][0])
    return [(sum((held for held, own in parts if own == each), zero), each) for each in widths]


def cache_term(setting: ServingSetting, plan: Plan, ranks: Ranks) -> TermColumn:
    """Keys and values of every token so far: 2 · layers · kv heads · head size · bytes a token.

    A pipeline holds the caches of the micro-batches that are under way; ``core.model.cache`` says what each
    kind of layer keeps.
    """
    model, length, each = setting.model, setting.sequence_length, setting.cache_bytes
    width = cached_width(model, plan.tensor_parallel)
    words, source = "2 · kv heads · head size", _CACHE
    if model.latent_attention is not None:
        words, source = "(rank + rope)", _LATENT
    sequences = plan.micro_batch_size * min(plan.num_micro_batches, plan.pipeline_parallel)
    linear = ranks.holding.linear_layers
    windowed = np.rint(ranks.num_layers * model.num_window_layers / model.num_layers)
    seen = min(length, model.sliding_window or length)
    rows = (ranks.num_layers - windowed - linear) * math.ceil(length / plan.context_parallel)
    rows = rows + windowed * math.ceil(seen / plan.context_parallel)
    state, index = (
        linear_state_bytes(model, plan.tensor_parallel, setting.precision),
        beside_bytes(model, setting.precision),
    )
    beside = linear * state + rows * index

    def formula(row: int) -> str:
        tokens = f"{sequences} sequences · {rows[row]:,.0f} tokens of layers"
        states = f" + {sequences} · {linear[row]:,.0f} states of {state:,} bytes" if state else ""
        keys = (
            f" + {sequences} · {rows[row]:,.0f} keys of an indexer and scales of {index} bytes"
            if index
            else ""
        )
        return f"{each:.6g} bytes · {tokens} · {words} = {width}{states}{keys}"

    held = np.ceil(each * sequences * rows * width + sequences * beside)
    return TermColumn("keys and values", Category.KV_CACHE, held, formula, source)


def layer_term(setting: ServingSetting, plan: Plan, new_tokens: Floats) -> TermColumn:
    """The widest part of one layer: residual, normalised input, and what the MLP or attention makes of it."""
    model, each = setting.model, setting.outer_bytes
    gates = 2 if model.is_gated else 1
    mlp = (gates + 1) * model.ffn_hidden_size / plan.tensor_parallel
    if model.experts is not None:
        chosen = model.experts.experts_per_token * model.experts.ffn_hidden_size
        mlp = max(mlp, (gates + 1) * chosen / plan.tensor_parallel_of_experts)
    heads = heads_of_rank(model, plan.tensor_parallel)
    width = 2 * model.hidden_size + max(mlp, heads.query_width + heads.joint_width)
    return TermColumn(
        "one layer's activations",
        Category.ACTIVATION,
        np.rint(each * new_tokens * width),
        lambda row: f"{each} bytes · {new_tokens[row]:,.0f} tokens · {width:,.0f}",
        "sum over the tensors of one layer",
    )


def logit_term(setting: ServingSetting, plan: Plan, tokens: Floats) -> TermColumn:
    """Logits of the positions of which there are any."""
    each, elements = setting.outer_bytes, tokens * math.ceil(setting.model.vocab_size / plan.tensor_parallel)
    return TermColumn(
        "logits",
        Category.ACTIVATION,
        each * elements,
        lambda row: f"{each} bytes · {elements[row]:,.0f}",
        "the head's product",
    )
