"""The instants of a step that can be its peak, and what is held then besides the states.

loss             all waiting activations, logits and what the loss makes of them
head backward    the same activations, the gradient of the logits, the head's gradient
layer backward   the same activations and what the last layer's backward works with
embedding        its dense gradient, when all activations are gone
optimizer        the states alone: fused updates work in place
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.frameworks.profile import MemoryProfile, TrainingProfile
from perfcast.memory_use.footprint.activations import element_bytes
from perfcast.memory_use.footprint.buffers import (
    communication_term,
    gathered_terms,
    input_term,
    issued_ahead_term,
    offload_terms,
    widened_term,
    workspace_terms,
)
from perfcast.memory_use.footprint.layer_figures import LayerFigures
from perfcast.memory_use.footprint.ranks import Ranks, chunks_of_ranks, larger_kind
from perfcast.memory_use.footprint.setting import Setting
from perfcast.memory_use.footprint.states import state_terms, whole_gradient_term
from perfcast.memory_use.footprint.terms import PeakCandidateColumn, TermColumn, TermGroup

_KORTHIKANTI = "Korthikanti et al., MLSys 2023, sections 4 and 5"
_CROSS_ENTROPY = "Megatron-LM: tensor_parallel/cross_entropy.py"


@dataclass(frozen=True, eq=False, slots=True)
class PeakCandidates:
    """Those of n ranks.

    Attributes:
        states: Held in all of them.
        waiting: Activations of layers, held in those that ``while_waiting`` names.
    """

    columns: tuple[PeakCandidateColumn, ...]
    states: TermGroup
    waiting: TermGroup
    while_waiting: tuple[str, ...] = ("layer backward", "loss", "head backward")


def peak_candidates(setting: Setting, ranks: Ranks, figures: LayerFigures) -> PeakCandidates:
    """All candidates of each rank, term by term."""
    training, profile = setting.training, setting.memory
    whole = setting.profile.sums_whole_gradients_in_pipelines
    states = TermGroup(
        (*state_terms(ranks, training, profile), *((whole_gradient_term(ranks, profile),) if whole else ()))
    )
    always = TermGroup(
        (
            *workspace_terms(ranks, setting.workspace_bytes, profile),
            *gathered_terms(ranks, profile),
            *offload_terms(ranks, profile),
            widened_term(ranks, profile),
            input_term(figures),
        )
    )
    waiting = TermGroup(waiting_terms(ranks, figures))
    passing = TermGroup(
        (communication_term(ranks, figures, profile), issued_ahead_term(ranks, figures, profile))
    )
    layer = TermGroup(
        (*recomputed_terms(ranks, figures, setting.profile), *layer_backward_terms(ranks, figures))
    )
    head = TermGroup((head_input_term(figures),))
    loss = TermGroup(loss_terms(figures, training, profile))
    gradients = TermGroup(head_backward_terms(ranks, figures, training, profile))
    held, everywhere = (states, always), np.ones(len(ranks.plans), dtype=np.bool_)
    in_backward = (*held, waiting, passing)
    columns = (
        PeakCandidateColumn("optimizer", everywhere, held),
        PeakCandidateColumn("layer backward", ranks.num_active > 0, (*in_backward, layer)),
        PeakCandidateColumn("loss", ranks.has_head, (*in_backward, head, loss)),
        PeakCandidateColumn("head backward", ranks.has_head, (*in_backward, head, gradients)),
        PeakCandidateColumn(
            "embedding backward",
            ranks.has_embedding & training.tuning.trains("embedding"),
            (*held, TermGroup((embedding_backward_term(ranks, profile),))),
        ),
    )
    return PeakCandidates(columns, states, waiting)


def waiting_terms(ranks: Ranks, figures: LayerFigures) -> Iterator[TermColumn]:
    """Activations that wait for their backward; of layers that are computed again their inputs alone."""
    in_flight = np.where(ranks.plans.has_word("offload", "activations"), 1.0, ranks.in_flight)
    again = ranks.num_recomputed
    if again.any():
        yield TermColumn(
            "inputs of checkpointed layers",
            Category.ACTIVATION,
            np.rint(in_flight * again * figures.norm_rows),
            lambda row: f"{_micro_batches(in_flight[row])} · {again[row]:.0f} layers · 2·s·b·h",
            _KORTHIKANTI,
        )
    yield TermColumn(
        "layer activations",
        Category.ACTIVATION,
        np.rint(in_flight * _saved_bytes(ranks, figures)),
        lambda row: f"{_micro_batches(in_flight[row])} · {(ranks.num_active - again)[row]:.0f} layers",
        _KORTHIKANTI,
    )


def _micro_batches(count: float) -> str:
    return f"{count:g} micro-batch{'' if count == 1 else 'es'}"


def _saved_bytes(ranks: Ranks, figures: LayerFigures) -> Floats:
    """Bytes of a micro-batch in layers that are not computed again; of one layer where they move away."""
    held = ranks.holding
    dense = held.dense_layers - held.again_dense - held.idle_dense
    expert = held.expert_layers - held.again_expert - held.idle_expert
    saved = dense * figures.saved_dense + expert * figures.saved_expert
    if held.frozen_dense.any() or held.frozen_expert.any():
        frozen_dense = np.clip(held.frozen_dense - held.idle_dense, 0.0, dense)
        frozen_expert = np.clip(held.frozen_expert - held.idle_expert, 0.0, expert)
        saved = saved - frozen_dense * (figures.saved_dense - figures.frozen_dense)
        saved = saved - frozen_expert * (figures.saved_expert - figures.frozen_expert)
    moves_away = ranks.plans.has_word("offload", "activations")
    if not moves_away.any():
        return saved
    one = larger_kind(dense, figures.saved_dense, expert, figures.saved_expert)
    return np.where(moves_away, one, saved)


def recomputed_terms(ranks: Ranks, figures: LayerFigures, profile: TrainingProfile) -> Iterator[TermColumn]:
    """What the layer whose backward runs has made again: all beside its input, or what 'selective' dropped.

    Where only the first layers are computed again, what those behind them kept is free by then.
    """
    again = ranks.num_recomputed > 0
    if again.any():
        one = larger_kind(
            ranks.holding.again_dense, figures.saved_dense, ranks.holding.again_expert, figures.saved_expert
        )
        gone = _saved_bytes(ranks, figures) // chunks_of_ranks(ranks.plans)
        made = np.where(again, np.maximum(one - figures.norm_rows - gone, 0.0), 0.0)
        formula = "one layer's activations"
        yield TermColumn("recomputed layer", Category.ACTIVATION, made, formula, _KORTHIKANTI)
    part = larger_kind(
        ranks.holding.dense_layers, figures.again_dense, ranks.holding.expert_layers, figures.again_expert
    )
    part = np.where(ranks.plans.has_word("recompute", "full"), 0.0, part)
    if part.any():
        yield TermColumn(
            _recomputed_name(ranks, profile), Category.ACTIVATION, part, "of one layer", _KORTHIKANTI
        )


def _recomputed_name(ranks: Ranks, profile: TrainingProfile) -> str:
    if profile.selective == "operators":
        return "recomputed operators"
    named = ranks.plans.shared.get("recompute_modules") or profile.recompute_modules
    return (
        "recomputed attention"
        if (named, profile.always_recomputes) == (("core_attn",), ())
        else "recomputed modules"
    )


def layer_backward_terms(ranks: Ranks, figures: LayerFigures) -> Iterator[TermColumn]:
    """The larger of what the backward of attention and of the MLP works with."""
    mlp = larger_kind(
        ranks.holding.dense_layers, figures.dense_backward,
        ranks.holding.expert_layers, figures.expert_backward,
    )  # fmt: skip
    attention = figures.attention_backward
    for name, num_bytes in (
        ("gradients inside the MLP", np.where(mlp >= attention, mlp, 0.0)),
        ("gradients inside attention", np.where(mlp >= attention, 0.0, attention)),
    ):
        yield TermColumn(name, Category.TEMPORARY, num_bytes, "of one layer's backward", _KORTHIKANTI)


def head_input_term(figures: LayerFigures) -> TermColumn:
    """Input of the last norm and its output, whole for the head's product."""
    num_bytes = figures.norm_rows + figures.rows
    return TermColumn("input of the head", Category.ACTIVATION, num_bytes, "2·s·b·h, twice", _KORTHIKANTI)


def loss_terms(figures: LayerFigures, training: Training, profile: MemoryProfile) -> Iterator[TermColumn]:
    """Logits in the products' format and, unless the loss is fused, what it makes of them in fp32."""
    yield _logits("logits", figures.logits, element_bytes(training))
    if not training.fuses_cross_entropy:
        yield _logits("the loss's copies of the logits", figures.logits, profile.softmax_bytes)


def _logits(name: str, elements: Floats, each: float) -> TermColumn:
    num_bytes = np.rint(each * elements)
    return TermColumn(
        name,
        Category.ACTIVATION,
        num_bytes,
        lambda row: f"{each:g} bytes · {elements[row]:,.0f}",
        _CROSS_ENTROPY,
    )


def head_backward_terms(
    ranks: Ranks, figures: LayerFigures, training: Training, profile: MemoryProfile
) -> Iterator[TermColumn]:
    """Gradient of the logits, of the head's weight, and of its input before it is cut again."""
    yield _logits("gradient of the logits", figures.logits, element_bytes(training))
    if training.tuning.trains("head"):
        yield _table_gradient("gradient of the head", ranks, profile)
    yield TermColumn(
        "gradient of the head's input", Category.ACTIVATION, figures.rows, "2·s·b·h", _KORTHIKANTI
    )


def embedding_backward_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """The dense gradient of the embedding before it is added to the buffer."""
    return _table_gradient("gradient of the embedding", ranks, profile)


def _table_gradient(name: str, ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    each, rows = profile.compute_weight_bytes, ranks.weights.table
    return TermColumn(
        name,
        Category.GRADIENT,
        each * rows,
        lambda row: f"{each} bytes · {rows[row]:,.0f}",
        profile.source,
    )
