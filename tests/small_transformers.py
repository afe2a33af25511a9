"""Transformers small or round enough to be followed by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.forecast.footprint import PeakCandidate, StageFootprint, Term
from perfcast.core.model.attention_weights import Weight
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.profile import MemoryProfile, TrainingProfile
from perfcast.memory_use.footprint.layer_figures import LayerFigures, layer_figures
from perfcast.memory_use.footprint.ranks import Holding, Ranks, ranks_of_stages
from perfcast.memory_use.footprint.setting import Setting
from perfcast.memory_use.footprint.stage_layers import deal_out_layers
from perfcast.memory_use.footprint.terms import TermColumn
from perfcast.memory_use.footprint.weight_figures import (
    KindFigures,
    PartFigures,
    WeightFigures,
    count_parts,
    moment_bytes,
    shapes,
    weight_figures,
)


def gpt(
    heads: int = 4, hidden: int = 64, layers: int = 8, vocabulary: int = 512, **changes: Any
) -> Transformer:
    """GPT as its paper has it: MLP of 4 h, layer norms, biases, learned positions, dropout, one table."""
    sizes: dict[str, Any] = {
        "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "num_kv_heads": heads,
        "head_size": hidden // heads, "ffn_hidden_size": 4 * hidden, "vocab_size": vocabulary,
        "positions": "learned", "max_positions": 32, "has_dropout": True, "has_attention_dropout": True,
    }  # fmt: skip
    return Transformer(**(sizes | changes))


def llama(heads: int = 8, kv_heads: int = 4, **changes: Any) -> Transformer:
    """Gated, grouped keys and values, no bias, no dropout, a head of its own."""
    sizes: dict[str, Any] = {
        "num_layers": 8, "hidden_size": 64, "num_attention_heads": heads, "num_kv_heads": kv_heads,
        "head_size": 8, "ffn_hidden_size": 192, "vocab_size": 512, "is_gated": True, "norm": "rmsnorm",
        "has_linear_bias": False, "has_qkv_bias": False, "ties_embeddings": False,
    }  # fmt: skip
    return Transformer(**(sizes | changes))


def mixture(**changes: Any) -> Transformer:
    """``llama`` with 8 experts of width 96, two for each token."""
    return llama(experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=96), **changes)


def memory_profile(**changes: Any) -> MemoryProfile:
    """Two bytes of weight, two of gradient, fp32 copies: those of the ZeRO paper."""
    stated: dict[str, Any] = {
        "weight_bytes": 2, "compute_weight_bytes": 2, "gradient_bytes": 2, "has_master_weights": True,
        "keeps_dummy_gradients": False, "keeps_joint_qkv": False, "keeps_gate": False, "softmax_bytes": 4,
        "has_second_workspace": False, "source": "by hand",
    }  # fmt: skip
    return MemoryProfile(**(stated | changes))


def training_profile(**changes: Any) -> TrainingProfile:
    """A framework that keeps ``memory_profile``, pads no vocabulary, deals layers out evenly and drops the
    core of attention where it recomputes selectively."""
    own = load_training_profile("fsdp")
    return replace(own, memory=memory_profile(**changes), selective="attention_core")


def one_rank(
    plan: Plan,
    *dense: Weight,
    experts: tuple[Weight, ...] = (),
    embedding: tuple[Weight, ...] = (),
    head: tuple[Weight, ...] = (),
    num_dense: int = 1,
    num_expert: int = 1,
    again: tuple[int, int] = (0, 0),
    in_flight: float = 1.0,
    optimizer: str = "none",
) -> Ranks:
    """A rank with layers of some weights, and one of experts where there are any, of which ``again`` are
    computed again.
    """
    parts = {
        "dense_layer": dense, "shared_layer": (), "experts": experts, "embedding": embedding,
        "head": (), "head_alone": head,
    }  # fmt: skip
    elements = PartFigures(**_columns(count_parts(parts, lambda weight: weight.num_elements)))
    nothing = PartFigures(**_columns(count_parts(parts, lambda weight: 0)))
    weights = WeightFigures(
        elements=elements,
        trained=elements,
        frozen=nothing,
        quantised=nothing,
        travelling=elements,
        widest=_column(0),
        moment_bytes=PartFigures(**_columns(moment_bytes(parts, optimizer))),
        table=_column(embedding[0].num_elements if embedding else 0),
        shape_elements=KindFigures(**_columns(shapes(parts, lambda rows, columns: rows * columns))),
        num_shapes=KindFigures(**_columns(shapes(parts, lambda rows, columns: 1))),
    )
    holding = Holding(
        dense_layers=_column(num_dense if dense else 0),
        expert_layers=_column(num_expert if experts else 0),
        again_dense=_column(again[0]),
        again_expert=_column(again[1]),
        frozen_dense=_column(0),
        frozen_expert=_column(0),
        idle_dense=_column(0),
        idle_expert=_column(0),
        linear_layers=_column(0),
        embeddings=_column(bool(embedding)),
        heads=_column(0),
        heads_alone=_column(bool(head)),
    )
    return Ranks(to_table([plan]), weights, holding, _column(in_flight))


def rank_of(model: Transformer, plan: Plan, stage: int = 0, **options: Any) -> Ranks:
    """The rank of a stage of a model under a plan; options as of ``weight_figures``."""
    table, one = to_table([plan]), np.zeros(1, dtype=np.int64)
    layers = deal_out_layers(model, table, balances_head=False)
    weights = weight_figures(model, table, **options).take(one)
    return ranks_of_stages(model, table, weights, layers, one + stage)


def figures_of(
    model: Transformer, plan: Plan, training: Training | None = None, sequence_length: int = 128
) -> LayerFigures:
    """What a layer of a model saves and works with under a plan, with ``memory_profile``."""
    setting = Setting(model, training or Training(framework="fsdp"), training_profile(), sequence_length)
    return layer_figures(setting, to_table([plan])).take(np.zeros(1, dtype=np.int64))


def _columns(figures: dict[str, float]) -> dict[str, Floats]:
    return {name: _column(figure) for name, figure in figures.items()}


def _column(figure: float) -> Floats:
    return np.array([float(figure)])


def one(term: TermColumn) -> Term:
    """A term of one rank."""
    assert term.num_bytes.shape == (1,)
    return term.row(0)


def sizes(terms: Iterable[TermColumn]) -> list[int]:
    """Bytes of the terms of one rank that there are any of."""
    return [one(term).num_bytes for term in terms if term.num_bytes[0]]


def term_of(candidate: PeakCandidate, name: str) -> Term | None:
    """A term by its name, if the candidate has it."""
    return next((term for term in candidate.terms if term.name == name), None)


def candidate_of(stage: StageFootprint, name: str) -> PeakCandidate:
    """A peak candidate by its name."""
    return next(candidate for candidate in stage.peak_candidates if candidate.name == name)
