"""What one rank of a pipeline stage holds of a model, for n pairs of a plan and a stage.

How many micro-batches' activations wait at most on stage i of p:

1F1B starts p - i forwards before its first backward (Narayanan et al.: PipeDream, SOSP 2019; Megatron-LM,
SC 2021, section 2.2.1). GPipe holds all of them (Huang et al., 2019). Interleaved 1F1B runs
2·(p - i - 1) + (v - 1)·p chunks ahead (Megatron-LM: schedules.py, from section 2.2.2). The zero-bubble
schedule ZB-H1 holds what 1F1B does (Qi et al.: Zero Bubble Pipeline Parallelism, ICLR 2024, section 3).
DualPipe feeds p - i micro-batches from one end and i + 1 from the other: p + 1 in all, each of one of the two
parts of the model that a rank holds (DeepSeek-V3 Technical Report, arXiv 2412.19437, table 2).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.model.layer import num_linear_before
from perfcast.core.model.transformer import Transformer
from perfcast.core.plans.table import PlanTable
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.memory_use.footprint.stage_layers import StageLayers, num_dense_layers, recomputed_layers
from perfcast.memory_use.footprint.weight_figures import KindFigures, PartFigures, WeightFigures


@dataclass(frozen=True, eq=False, slots=True)
class Holding:
    """How many of each part of a model n ranks hold; shape [n] each, whole numbers.

    Attributes:
        dense_layers, expert_layers: Without and with experts.
        again_dense, again_expert: Of those, layers that are computed again in the backward.
        embeddings, heads, heads_alone: 0 or 1; see ``PartFigures``.
        frozen_dense, frozen_expert: Layers whose weights stay as they are.
        idle_dense, idle_expert: Layers that no gradient reaches: they keep nothing.
        linear_layers: Of both kinds, those with linear attention.
    """

    dense_layers: Floats
    expert_layers: Floats
    again_dense: Floats
    again_expert: Floats
    embeddings: Floats
    heads: Floats
    heads_alone: Floats
    frozen_dense: Floats
    frozen_expert: Floats
    idle_dense: Floats
    idle_expert: Floats
    linear_layers: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Ranks:
    """n ranks: each a plan, what it holds of the model, and the sizes of that.

    Attributes:
        in_flight: Micro-batches whose activations wait, in units of all that a rank holds; shape [n].
    """

    plans: PlanTable
    weights: WeightFigures
    holding: Holding
    in_flight: Floats

    @property
    def num_layers(self) -> Floats:
        """Layers of both kinds."""
        return self.holding.dense_layers + self.holding.expert_layers

    @property
    def num_active(self) -> Floats:
        """Layers of both kinds that run a backward."""
        return self.num_layers - self.holding.idle_dense - self.holding.idle_expert

    @property
    def num_recomputed(self) -> Floats:
        """Layers of both kinds that are computed again."""
        return self.holding.again_dense + self.holding.again_expert

    @property
    def has_embedding(self) -> Flags:
        """Whether a rank holds the embedding."""
        return self.holding.embeddings > 0

    @property
    def has_head(self) -> Flags:
        """Whether a rank holds the head."""
        return self.holding.heads + self.holding.heads_alone > 0

    def amounts(self, figures: PartFigures) -> tuple[Floats, Floats]:
        """Sum of a figure over all that a rank holds but experts, and over its experts."""
        held = self.holding
        inside = held.dense_layers * figures.dense_layer + held.expert_layers * figures.shared_layer
        return inside + self.outside(figures), held.expert_layers * figures.experts

    def trained_amounts(self, figures: PartFigures) -> tuple[Floats, Floats]:
        """The same without layers that are frozen as a whole."""
        held = self.holding
        dense, expert = held.dense_layers - held.frozen_dense, held.expert_layers - held.frozen_expert
        inside = dense * figures.dense_layer + expert * figures.shared_layer
        return inside + self.outside(figures), expert * figures.experts

    def outside(self, figures: PartFigures) -> Floats:
        """Sum over embedding and head."""
        return self.holding.embeddings * figures.embedding + self.heads(figures)

    def heads(self, figures: PartFigures) -> Floats:
        """Sum over the head alone."""
        return self.holding.heads * figures.head + self.holding.heads_alone * figures.head_alone

    def largest_layer(self, elements: PartFigures) -> Floats:
        """Parameters of the largest kind of layer that a rank has; 0 without layers."""
        return larger_kind(
            self.holding.dense_layers, elements.dense_layer,
            self.holding.expert_layers, elements.shared_layer + elements.experts,
        )  # fmt: skip

    def of_kinds(self, figures: KindFigures) -> Floats:
        """A figure of the kinds of layer that a rank has."""
        has_dense, has_expert = self.holding.dense_layers > 0, self.holding.expert_layers > 0
        one = np.where(has_expert, figures.expert, np.where(has_dense, figures.dense, 0.0))
        return np.where(has_dense & has_expert, figures.both, one)


def larger_kind(num_dense: Floats, dense: Floats, num_expert: Floats, expert: Floats) -> Floats:
    """The larger figure of the kinds of layer of which there are any."""
    return np.maximum(np.where(num_dense > 0, dense, 0.0), np.where(num_expert > 0, expert, 0.0))


def chunks_of_ranks(plans: PlanTable) -> Integers:
    """Parts of the model that a rank holds, shape [n]."""
    return np.where(plans.has_word("schedule", "dualpipe"), 2, plans.virtual_stages_per_rank)


def chunks_in_flight(plans: PlanTable, stage: Integers) -> Integers:
    """Forwards of a chunk (a virtual stage's share of the layers) that wait at the peak, shape [n]."""
    stages, chunks, count = plans.pipeline_parallel, plans.virtual_stages_per_rank, plans.num_micro_batches
    forwards = count * chunks
    ahead = np.where(chunks > 1, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1, stages - stage)
    # one more, beside which the backwards run (Megatron-LM: schedules.py, get_pp_rank_microbatches)
    in_turn = plans.has_word("schedule", "1f1b", "interleaved") & (plans.expert_parallel > 1)
    ahead = ahead + plans.overlaps_experts * in_turn
    found = np.where(plans.has_word("schedule", "gpipe"), forwards, np.minimum(forwards, ahead))
    both_ways = plans.has_word("schedule", "dualpipe")
    if not both_ways.any():
        return found
    each = count // 2
    return np.where(both_ways, np.minimum(each, stages - stage) + np.minimum(each, stage + 1), found)


def ranks_of_stages(
    model: Transformer,
    plans: PlanTable,
    weights: WeightFigures,
    layers: StageLayers,
    stage: Integers,
    tuning: Tuning = FULL,
) -> Ranks:
    """The rank of a stage of each plan; with DualPipe it holds the part of the mirrored stage too."""
    holding = _held(model, plans, layers, stage, tuning)
    both_ways = plans.has_word("schedule", "dualpipe")
    if both_ways.any():
        mirrored = _held(model, plans, layers, plans.pipeline_parallel - 1 - stage, tuning)
        holding = Holding(
            *(
                getattr(holding, part.name) + np.where(both_ways, getattr(mirrored, part.name), 0.0)
                for part in fields(Holding)
            )
        )
    in_flight = chunks_in_flight(plans, stage) / chunks_of_ranks(plans)
    return Ranks(plans, weights, holding, in_flight)


def _held(
    model: Transformer, plans: PlanTable, layers: StageLayers, stage: Integers, tuning: Tuning
) -> Holding:
    """What one stage holds; further prediction layers stand on the last, with experts where there are any."""
    stages = plans.pipeline_parallel
    before, behind = layers.before(stage), layers.before(stage + 1)
    num_dense, count = num_dense_layers(model), behind - before
    dense: Floats = (np.minimum(behind, num_dense) - np.minimum(before, num_dense)).astype(np.float64)
    is_last, is_alone = stage == stages - 1, stages == 1
    extra = np.where(is_last, float(model.num_prediction_layers), 0.0)
    expert = count - dense
    if model.experts is None:
        dense = dense + extra
    else:
        expert = expert + extra
    again_dense, again_expert = recomputed_layers(model, plans, before, count, (dense, expert))
    idle = _kinds_of_row(num_dense, before, behind, 0, min(tuning.first_with_gradient, model.num_layers))
    first, last = tuning.frozen_layers or (0, -1)
    frozen = _kinds_of_row(num_dense, before, behind, first, last + 1)
    linear = num_linear_before(model, behind) - num_linear_before(model, before)
    return Holding(
        dense_layers=dense,
        expert_layers=expert,
        again_dense=np.minimum(again_dense, dense - idle[0]),
        again_expert=np.minimum(again_expert, expert - idle[1]),
        frozen_dense=frozen[0],
        frozen_expert=frozen[1],
        idle_dense=idle[0],
        idle_expert=idle[1],
        embeddings=(stage == 0).astype(np.float64),
        heads=(is_last & ~is_alone).astype(np.float64),
        heads_alone=(is_last & is_alone).astype(np.float64),
        linear_layers=linear.astype(np.float64),
    )


def _kinds_of_row(
    num_dense: int, before: Integers, behind: Integers, first: int, end: int
) -> tuple[Floats, Floats]:
    """Dense layers and those with experts of a stage among layers ``first`` to ``end`` of the model."""
    begin, stop = np.clip(first, before, behind), np.clip(end, before, behind)
    every = np.maximum(stop - begin, 0)
    dense = np.maximum(np.minimum(stop, num_dense) - np.minimum(begin, num_dense), 0)
    return dense.astype(np.float64), (every - dense).astype(np.float64)
