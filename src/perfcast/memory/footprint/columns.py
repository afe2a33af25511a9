"""The footprint of many plans at once: the same terms as ``estimate_footprint``, in columns.

What a layer keeps depends on few of a plan's degrees and is computed once for each combination of those. What
remains (how many layers, how many micro-batches wait, over how many ranks states are sharded) is array
arithmetic. Stages in the middle hold no more than those before them, so few stages are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.hardware import Device
from perfcast.core.plan import SCHEDULES
from perfcast.core.plan_table import PlanTable
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.errors import PlanError
from perfcast.memory.allocator.context import communicator, cublas_workspace_bytes, driver_context
from perfcast.memory.footprint.buffers import workspace_terms
from perfcast.memory.footprint.column_figures import ColumnSetting, LayerFigures, layer_figures
from perfcast.memory.footprint.column_layers import candidates_of_splits, layers_of, recomputed_of
from perfcast.memory.footprint.fitted import load_spread
from perfcast.memory.footprint.habits import habits_of
from perfcast.memory.footprint.states import EIGHT_BIT_BYTES, MOMENT_BYTES


@dataclass(frozen=True, eq=False)
class FootprintColumns:
    """Of n plans, shape [n] each.

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
    """Peak memory of every plan of a table, equal to ``estimate_footprint`` of each.

    Raises:
        PlanError: A framework or an optimizer that has no such columns.
    """
    if training.framework == "pytorch" or training.optimizer in ("adafactor", "muon"):
        raise PlanError(
            f"many plans at once are weighed for Adam, AdamW and SGD on frameworks that cut models, not for "
            f"{training.optimizer} on {training.framework}"
        )
    setting = ColumnSetting(model, plans, training, habits_of(training), sequence_length, device)
    layers = layer_figures(setting)
    found = [_peaks(setting, layers, _of_rank(setting, layers, stage)) for stage in _candidates(setting)]
    worst = np.stack([peak for peak, _, _ in found]).argmax(axis=0)
    peak, states, waiting = (
        np.stack(parts)[worst, np.arange(len(plans))] for parts in zip(*found, strict=True)
    )
    spread = load_spread(training.framework)
    return FootprintColumns(
        peak_bytes=peak,
        device_bytes=np.rint(peak * spread.reserved) + _context_bytes(device, plans),
        state_bytes=states,
        activation_bytes=waiting,
    )


@dataclass(frozen=True, eq=False)
class _StageColumns:
    """What one rank of a stage holds, for each plan; shape [n] each."""

    num_dense: Floats
    num_expert: Floats
    embedding: Floats
    embedding_table: Floats
    head: Floats
    head_table: Floats
    holds_head: Flags
    in_flight: Floats
    again_dense: Floats
    again_expert: Floats


def _candidates(setting: ColumnSetting) -> tuple[Integers, ...]:
    """Stages of which one needs most: the ends, the first behind dense layers, the middle for DualPipe."""
    stages, experts = setting.plans.pipeline_parallel, setting.model.experts
    each = -(-setting.model.num_layers // stages)
    behind = -(-(experts.num_dense_layers if experts else 0) // each)
    usual = (np.zeros_like(stages), np.minimum(behind, stages - 1), (stages - 1) // 2, stages - 1)
    return (*usual, *candidates_of_splits(setting))


def _of_rank(setting: ColumnSetting, layers: LayerFigures, stage: Integers) -> _StageColumns:
    """What a rank of a stage holds; with DualPipe that of the mirrored stage too."""
    own = _stage_columns(setting, layers, stage)
    both = setting.word("schedule", "dualpipe")
    if not both.any():
        return own
    mirrored = _stage_columns(setting, layers, setting.plans.pipeline_parallel - 1 - stage)
    summed = replace(
        own,
        again_dense=own.again_dense + mirrored.again_dense,
        again_expert=own.again_expert + mirrored.again_expert,
        num_dense=own.num_dense + mirrored.num_dense,
        num_expert=own.num_expert + mirrored.num_expert,
        embedding=own.embedding + mirrored.embedding,
        embedding_table=own.embedding_table + mirrored.embedding_table,
        head=own.head + mirrored.head,
        head_table=np.maximum(own.head_table, mirrored.head_table),
        holds_head=own.holds_head | mirrored.holds_head,
    )
    columns = (np.where(both, getattr(summed, f.name), getattr(own, f.name)) for f in fields(own))
    return _StageColumns(*columns)


def _stage_columns(setting: ColumnSetting, layers: LayerFigures, stage: Integers) -> _StageColumns:
    model, stages = setting.model, setting.plans.pipeline_parallel
    before, count = layers_of(setting, stage)
    num_dense = model.num_layers if model.experts is None else model.experts.num_dense_layers
    dense = np.maximum(0, np.minimum(before + count, num_dense) - before)
    alone, is_first, is_last = stages == 1, stage == 0, stage == stages - 1
    extra = np.where(is_last, model.num_prediction_layers, 0)
    expert = count - dense + (extra if model.experts else 0)
    dense = dense + (0 if model.experts else extra)
    owns = np.where(alone & model.ties_embeddings, 0.0, layers.head_table)
    table = np.where(is_first, layers.embedding_table, 0.0)
    again_dense, again_expert = recomputed_of(setting, before, count, (dense, expert))
    return _StageColumns(
        num_dense=dense.astype(np.float64),
        num_expert=expert.astype(np.float64),
        embedding=np.where(is_first, layers.embedding, 0.0),
        embedding_table=table,
        head=np.where(is_last, np.where(alone, layers.own_head, layers.head), 0.0),
        head_table=np.where(is_last & (owns > 0), owns, table),
        holds_head=is_last,
        in_flight=_in_flight(setting.plans, stage),
        again_dense=again_dense,
        again_expert=again_expert,
    )


def _in_flight(plans: PlanTable, stage: Integers) -> Floats:
    """``chunks_in_flight`` of every plan, in units of all that its stage holds."""
    stages, chunks, count = plans.pipeline_parallel, plans.virtual_stages_per_rank, plans.num_micro_batches
    forwards = count * chunks
    ahead = np.where(chunks > 1, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1, stages - stage)
    ahead = np.where(plans.schedule == SCHEDULES.index("gpipe"), forwards, np.minimum(forwards, ahead))
    each = count // 2
    both = np.minimum(each, stages - stage) + np.minimum(each, stage + 1)
    is_dual = plans.schedule == SCHEDULES.index("dualpipe")
    return np.where(is_dual, both / 2, ahead / chunks)


def _peaks(
    setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns
) -> tuple[Floats, Floats, Floats]:
    """The largest moment of a stage; its states, and what waits then."""
    states = _states(setting, layers, stage)
    held = states + _gathered(setting, layers, stage) + _on_loan(setting, layers, stage) + layers.inputs
    held = held + sum(t.num_bytes for t in workspace_terms(_workspace_bytes(setting.device), setting.habits))
    waiting = _waiting(setting, layers, stage)
    several = setting.plans.pipeline_parallel > 1
    kept = waiting + np.where(several, layers.exchange, 0.0) + np.where(several, 0.0, layers.issued_ahead)
    each = setting.habits.compute_weight_bytes
    again, backward = _again(setting, layers, stage), _backward(layers, stage)
    with_head = held + kept + layers.head_input
    moments = [
        held,
        np.where(stage.num_dense + stage.num_expert > 0, held + kept + again + backward, 0.0),
        np.where(stage.holds_head, with_head + layers.loss, 0.0),
        np.where(stage.holds_head, with_head + layers.logit_gradient + each * stage.head_table, 0.0),
        np.where(stage.embedding > 0, held + each * stage.embedding_table, 0.0),
    ]
    peak = np.maximum.reduce(moments)
    is_waiting = (peak > moments[0]) & (peak > moments[4])
    return peak, states, np.where(is_waiting, waiting, 0.0)


def _workspace_bytes(device: Device | None) -> int:
    return 0 if device is None else cublas_workspace_bytes(device)


def _waiting(setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns) -> Floats:
    """``activation_terms``."""
    again = stage.again_dense + stage.again_expert
    in_flight = np.where(setting.word("offload", "activations"), 1.0, stage.in_flight)
    kept = _kept(setting, layers, stage)
    return np.rint(in_flight * again * layers.input_rows) + np.rint(in_flight * kept)


def _kept(setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns) -> Floats:
    """Of a micro-batch, what layers keep that are not computed again."""
    dense, expert = stage.num_dense - stage.again_dense, stage.num_expert - stage.again_expert
    kept = dense * layers.kept_dense + expert * layers.kept_expert
    offloaded = setting.word("offload", "activations")
    return np.where(offloaded, _larger(layers, dense, expert), kept)


def _larger(layers: LayerFigures, num_dense: Floats, num_expert: Floats) -> Floats:
    """What the larger kind of layer keeps, of the kinds that there are."""
    dense = np.where(num_dense > 0, layers.kept_dense, 0.0)
    return np.maximum(dense, np.where(num_expert > 0, layers.kept_expert, 0.0))


def _again(setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns) -> Floats:
    """``recomputed_term``."""
    selective = setting.word("recompute", "selective")
    is_dual = setting.word("schedule", "dualpipe")
    chunks = np.where(is_dual, 2, setting.plans.virtual_stages_per_rank)
    gone = _kept(setting, layers, stage) // chunks
    made = _larger(layers, stage.again_dense, stage.again_expert) - layers.input_rows - gone
    recomputes = stage.again_dense + stage.again_expert > 0
    return np.where(recomputes, np.maximum(made, 0.0), np.where(selective, layers.core, 0.0))


def _backward(layers: LayerFigures, stage: _StageColumns) -> Floats:
    """``layer_backward_terms``."""
    return _by_kinds(stage, layers.backward_dense, layers.backward_expert, layers.backward_both)


def _by_kinds(stage: _StageColumns, dense: Floats, expert: Floats, both: Floats) -> Floats:
    """A figure of the kinds of layer that a stage has."""
    has_dense, has_expert = stage.num_dense > 0, stage.num_expert > 0
    return np.where(
        has_dense & has_expert, both, np.where(has_expert, expert, np.where(has_dense, dense, 0.0))
    )


def _elements(layers: LayerFigures, stage: _StageColumns) -> tuple[Floats, Floats]:
    """Parameters of a rank: dense ones, and experts'."""
    dense = stage.num_dense * layers.dense_elements + stage.num_expert * layers.shared_elements
    return dense + stage.embedding + stage.head, stage.num_expert * layers.expert_elements


def _states(setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns) -> Floats:
    """``state_terms``."""
    habits, zero = setting.habits, setting.plans.zero_stage
    on_host = setting.word("offload", "parameters")
    optimizer_on_host = setting.word("offload", "optimizer", "parameters")
    moments = MOMENT_BYTES.get(setting.training.optimizer, EIGHT_BIT_BYTES)
    replicated = setting.plans.num_dense_replicas > 1
    shapes = _by_kinds(stage, layers.dense_shapes, layers.expert_shapes, layers.all_shapes)
    dummies = habits.compute_weight_bytes * shapes if habits.keeps_dummy_gradients else np.zeros_like(shapes)

    def parameters(each: float, absent: Flags, sharded: Flags) -> Floats:
        return np.where(absent, 0.0, _per_parameter(setting.plans, each, _elements(layers, stage), sharded))

    never = np.zeros_like(on_host)
    return np.asarray(
        parameters(habits.weight_bytes, on_host, zero >= 3)
        + parameters(habits.gradient_bytes, on_host, zero >= 2)
        + parameters(habits.local_gradient_bytes, zero >= 2, never)
        + parameters(4.0 if habits.has_master_weights else 0.0, optimizer_on_host, zero >= 1)
        + parameters(moments, optimizer_on_host, zero >= 1)
        + np.where(zero >= 2, 0.0, dummies)
        + parameters(habits.bucket_bytes, ~(replicated & (zero == 0)), never)
    )


def _per_parameter(plans: PlanTable, each: float, elements: tuple[Floats, Floats], sharded: Flags) -> Floats:
    dense_shards = np.where(sharded, plans.shard_size, 1)
    expert_shards = np.where(sharded, np.minimum(plans.shard_size, plans.num_expert_replicas), 1)
    return np.rint(each * (elements[0] / dense_shards + elements[1] / expert_shards))


def _largest_layer(layers: LayerFigures, stage: _StageColumns) -> Floats:
    expert = layers.shared_elements + layers.expert_elements
    return np.maximum(
        np.where(stage.num_dense > 0, layers.dense_elements, 0.0), np.where(stage.num_expert > 0, expert, 0.0)
    )


def _gathered(setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns) -> Floats:
    """``gathered_terms`` with one layer gathered ahead."""
    largest, outside = _largest_layer(layers, stage), stage.embedding + stage.head
    whole = sum(_elements(layers, stage)) - outside
    reshards = setting.plans.reshard_after_forward > 0
    held = np.where(reshards, np.minimum(whole, 2 * largest), whole) + largest
    each = setting.habits.compute_weight_bytes
    return np.where(setting.plans.zero_stage == 3, each * (held + outside) + 2 * each * largest, 0.0)


def _on_loan(setting: ColumnSetting, layers: LayerFigures, stage: _StageColumns) -> Floats:
    """``offload_terms``."""
    applies = setting.word("offload", "parameters") & (setting.plans.zero_stage < 3)
    lent = 2 * _largest_layer(layers, stage) + stage.embedding + stage.head
    return np.where(applies, 2 * setting.habits.compute_weight_bytes * lent, 0.0)


def _context_bytes(device: Device | None, plans: PlanTable) -> Floats:
    """Of the driver, and of one communicator for each axis."""
    if device is None or device.vendor != "nvidia":
        return np.zeros(len(plans))
    degrees = (plans.data_parallel, plans.tensor_parallel, plans.pipeline_parallel, plans.context_parallel,
               plans.expert_parallel)  # fmt: skip
    several = np.sum([degree > 1 for degree in degrees], axis=0)
    return np.asarray(
        driver_context(device).num_bytes + several * communicator(device).num_bytes, dtype=np.float64
    )
