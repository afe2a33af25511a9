"""The footprint of many plans at once, and of each stage of one.

What a layer keeps depends on few of a plan's degrees and is computed once for each combination of those. What
remains (how many layers, how many micro-batches wait, over how many ranks states are sharded) is array
arithmetic. Stages in the middle hold no more than those before them, so few stages are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.forecast.footprint import StageFootprint
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable, to_table
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.tuning.trained import Tuning
from perfcast.frameworks.load import training_profile_of
from perfcast.frameworks.tuning import check_trained
from perfcast.memory_use.allocator.context import bytes_beside_allocator
from perfcast.memory_use.footprint.combinations import ByCombination
from perfcast.memory_use.footprint.layer_figures import LayerFigures, layer_figures
from perfcast.memory_use.footprint.peak_candidates import PeakCandidates, peak_candidates
from perfcast.memory_use.footprint.pytorch.stage import check_whole, pytorch_stage
from perfcast.memory_use.footprint.pytorch.tuned import beside_adapters
from perfcast.memory_use.footprint.ranks import ranks_of_stages
from perfcast.memory_use.footprint.setting import Setting
from perfcast.memory_use.footprint.spread import load_spread
from perfcast.memory_use.footprint.stage_layers import (
    StageLayers,
    deal_out_layers,
    num_dense_layers,
    stages_beside_others,
)
from perfcast.memory_use.footprint.weight_figures import WeightFigures, weight_figures

_STATES = (Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE)
#: Rows that are computed together: their arrays stay in a processor's cache.
_BLOCK = 16384


@dataclass(frozen=True, eq=False)
class FootprintColumns:
    """What n plans take, shape [n] each.

    Attributes:
        peak_bytes: Allocated on the rank of the stage that needs most.
        device_bytes: Of its memory: reserved, and the context.
        state_bytes, activation_bytes: Parts of the peak: weights, gradients and optimizer state; what waits
            for its backward. The rest is work space.
    """

    peak_bytes: Floats
    device_bytes: Floats
    state_bytes: Floats
    activation_bytes: Floats


def footprint_columns(
    model: Transformer,
    plans: PlanTable,
    training: Training,
    sequence_length: int,
    *,
    device: Device | None = None,
) -> FootprintColumns:
    """Peak memory of every plan of a table: its largest peak candidate on the stage that needs most.

    Raises:
        PlanError: A plan that cannot cut the model, or that plain PyTorch cannot run.
    """
    profile = training_profile_of(training)
    if profile.memory is None:
        return _of_whole_models(model, plans, training, sequence_length, device)
    table = _prepare(Setting(model, training, profile, sequence_length, device), plans)
    largest = np.zeros((3, len(plans)))
    for begin in range(0, len(plans), _BLOCK):
        _fill(table, np.arange(begin, min(begin + _BLOCK, len(plans))), largest)
    return _columns(largest, plans, training, device)


def _of_whole_models(
    model: Transformer,
    plans: PlanTable,
    training: Training,
    sequence_length: int,
    device: Device | None,
) -> FootprintColumns:
    """Of plain PyTorch, whose plans are few: each by itself."""
    setting = Setting(model, training, training_profile_of(training), sequence_length, device)
    found = np.zeros((3, len(plans)))
    for at in range(len(plans)):
        peak = whole_stage(setting, plans.plan(at)).peak
        states = sum(term.num_bytes for term in peak.terms if term.category in _STATES)
        activations = sum(term.num_bytes for term in peak.terms if term.category == Category.ACTIVATION)
        found[:, at] = peak.num_bytes, states, activations
    return _columns(found, plans, training, device)


def whole_stage(setting: Setting, plan: Plan) -> StageFootprint:
    """Of plain PyTorch, what a device holds that has the whole model.

    Raises:
        PlanError: A plan that plain PyTorch cannot run.
    """
    model, training, length = setting.model, setting.training, setting.sequence_length
    if training.tuning.adapters is None:
        return pytorch_stage(model, plan, training, length, setting.workspace_bytes)
    check_whole(plan)
    beside = replace(setting, profile=replace(setting.profile, memory=beside_adapters(model)))
    return stage_footprints(beside, plan)[0]


def _columns(
    largest: Floats, plans: PlanTable, training: Training, device: Device | None
) -> FootprintColumns:
    """Peaks, states and waiting activations, shape [3, n], with what the allocator and the driver hold."""
    peak, states, activations = largest
    return FootprintColumns(
        peak_bytes=peak,
        device_bytes=np.rint(peak * load_spread(training.framework).reserved)
        + bytes_beside_allocator(device, plans.num_axes),
        state_bytes=states,
        activation_bytes=activations,
    )


def stage_footprints(setting: Setting, plan: Plan) -> tuple[StageFootprint, ...]:
    """Every stage of one plan, with all its terms.

    Raises:
        PlanError: A plan that cannot cut the model; the message states the equation.
    """
    stages = np.arange(plan.pipeline_parallel)
    table = _prepare(setting, to_table([plan]))
    found = table.candidates(np.zeros_like(stages), stages).columns
    return tuple(
        StageFootprint(stage, tuple(each.row(stage) for each in found if each.exists[stage]))
        for stage in stages.tolist()
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Table:
    """Plans, and the figures of which each has some."""

    setting: Setting
    plans: PlanTable
    stages: tuple[Integers, ...]
    layers: StageLayers
    weights: ByCombination[WeightFigures]
    figures: ByCombination[LayerFigures]

    def candidates(self, rows: Integers, stage: Integers) -> PeakCandidates:
        """What is held on a stage of some plans.

        Args:
            rows: Of the plans, shape [m].
            stage: Shape [m].
        """
        plans, weights = self.plans.take(rows), self.weights.take(rows)
        ranks = ranks_of_stages(
            self.setting.model, plans, weights, self.layers.take(rows), stage, self.setting.training.tuning
        )
        return peak_candidates(self.setting, ranks, self.figures.take(rows))


def _prepare(setting: Setting, plans: PlanTable) -> _Table:
    model, profile, training = setting.model, setting.profile, setting.training
    check_trained(model, training)
    figures = layer_figures(setting, plans)
    layers = deal_out_layers(model, plans, balances_head=profile.balances_stages)
    weights = weight_figures(
        model,
        plans,
        vocabulary_multiple=profile.vocabulary_multiple,
        optimizer=training.optimizer,
        tuning=training.tuning,
        joins_projections=profile.kernels.joins_projections,
        compute_weight_bytes=setting.memory.compute_weight_bytes,
    )
    return _Table(setting, plans, _stages(model, plans, training.tuning), layers, weights, figures)


def _stages(model: Transformer, plans: PlanTable, tuning: Tuning) -> tuple[Integers, ...]:
    """Stages of which one needs most: the ends, the second where the first has fewer layers, the first behind
    dense layers, the middle for DualPipe. Frozen layers may leave any the largest: then all are looked at."""
    stages = plans.pipeline_parallel
    num_dense = 0 if model.experts is None else num_dense_layers(model)
    behind = -(-num_dense // -(-model.num_layers // stages))
    first, last = np.zeros_like(stages), stages - 1
    usual = (first, np.minimum(1, last), np.minimum(behind, last), last // 2, last)
    rows = (tuning.frozen_layers or tuning.first_with_gradient) and int(stages.max())
    every = (np.minimum(stage, last) for stage in range(rows or 0))
    return (*usual, *every, *stages_beside_others(model, plans))


def _fill(table: _Table, rows: Integers, largest: Floats) -> None:
    """Peak, states and waiting activations of some rows, over all stages that count; shape [3, n]."""
    seen: list[Integers] = []
    for stages in table.stages:
        stage = stages[rows]
        is_new = np.all([stage != earlier for earlier in seen], axis=0) if seen else np.ones_like(stage, bool)
        seen.append(stage)
        some = rows[is_new]
        if not len(some):
            continue
        found = table.candidates(some, stage[is_new])
        held = np.stack([candidate.num_bytes for candidate in found.columns])
        peak = held.max(axis=0)
        waits = np.array([candidate.name in found.while_waiting for candidate in found.columns])
        is_waiting = peak > held[~waits].max(axis=0)
        values = np.stack([peak, found.states.num_bytes, np.where(is_waiting, found.waiting.num_bytes, 0.0)])
        is_larger = peak > largest[0, some]
        largest[:, some[is_larger]] = values[:, is_larger]
