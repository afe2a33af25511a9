"""The memory of a training step under a plan, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.core.forecast.footprint import Footprint, StageFootprint, Term
from perfcast.core.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.core.weights import (
    StageWeights,
    both_directions,
    layers_of_stages,
    pad_vocabulary,
    stage_weights,
)
from perfcast.memory.allocator.context import communicator, cublas_workspace_bytes, driver_context
from perfcast.memory.footprint.activations import (
    Layout,
    Saved,
    lay_out,
    layer_activations,
    layer_term,
)
from perfcast.memory.footprint.buffers import (
    exchange_term,
    gathered_terms,
    input_term,
    offload_terms,
    workspace_terms,
)
from perfcast.memory.footprint.fitted import load_spread
from perfcast.memory.footprint.habits import Habits, habits_of
from perfcast.memory.footprint.moments import (
    activation_terms,
    embedding_backward_term,
    head_activation_term,
    head_backward_terms,
    issued_ahead_term,
    layer_backward_terms,
    loss_terms,
    moment,
    recomputed_term,
)
from perfcast.memory.footprint.pipeline import chunks_in_flight, chunks_of_a_rank
from perfcast.memory.footprint.pytorch.stage import pytorch_stage
from perfcast.memory.footprint.recomputed import Recomputed, recomputed_layers
from perfcast.memory.footprint.serving import serving_stage
from perfcast.memory.footprint.states import state_terms

__all__ = ["estimate_footprint", "estimate_serving_footprint"]


def estimate_footprint(
    model: Transformer,
    plan: Plan,
    training: Training,
    sequence_length: int,
    *,
    device: Device | None = None,
    habits: Habits | None = None,
) -> Footprint:
    """Peak memory of a rank of each pipeline stage.

    Args:
        device: Whose libraries keep workspaces and whose driver a context; without one they are left out.
        habits: Of the program; None takes those of the training's framework.

    Raises:
        PlanError: A plan that cannot cut the model; the message states the equation.
    """
    workspace_bytes = 0 if device is None else cublas_workspace_bytes(device)
    if training.framework == "pytorch":
        whole = pytorch_stage(model, plan, training, sequence_length, workspace_bytes)
        notes = _assumptions(model, plan, training, device)
        return _with_spread((whole,), "pytorch", _context_bytes(device, plan), notes)
    habits = habits or habits_of(training)
    setting = _settle(model, plan, training, habits, sequence_length, workspace_bytes)
    stages = _stages(setting)
    notes = _assumptions(model, plan, training, device)
    footprint = _with_spread(stages, training.framework, _context_bytes(device, plan), notes)
    saved = setting.saved[1] or setting.saved[0]
    return replace(footprint, layer_terms=tuple(layer_term(item) for item in saved))


def estimate_serving_footprint(
    model: Transformer,
    plan: Plan,
    dtype: str,
    sequence_length: int,
    *,
    is_decode: bool,
    device: Device | None = None,
) -> Footprint:
    """Memory of a rank of each stage while it answers ``plan.micro_batch_size`` sequences.

    Args:
        sequence_length: Of the prompt; for decode, tokens in the cache.

    Raises:
        PlanError: A plan that cannot cut the model.
    """
    workspace_bytes = 0 if device is None else cublas_workspace_bytes(device)
    stages = tuple(
        serving_stage(
            model, plan, dtype, sequence_length, stage, is_decode=is_decode, workspace_bytes=workspace_bytes
        )
        for stage in range(plan.pipeline_parallel)
    )
    notes = ("the cache holds exactly the tokens so far", "logits of every position that is computed")
    return _with_spread(stages, "any", _context_bytes(device, plan), notes)


def _with_spread(
    stages: tuple[StageFootprint, ...], framework: str, context_bytes: int, assumptions: tuple[str, ...]
) -> Footprint:
    peak = max(stage.peak.num_bytes for stage in stages)
    spread = load_spread(framework)
    return Footprint(
        stages=stages,
        peak_bytes_low=round(peak * spread.allocated_low),
        peak_bytes_high=round(peak * spread.allocated_high),
        reserved_bytes=round(peak * spread.reserved),
        reserved_bytes_low=round(peak * spread.allocated_low),
        reserved_bytes_high=round(peak * spread.allocated_high * spread.reserved_high),
        context_bytes=context_bytes,
        assumptions=assumptions,
    )


@dataclass(frozen=True, slots=True)
class _Setting:
    """What all stages of a plan share."""

    model: Transformer
    plan: Plan
    training: Training
    habits: Habits
    layout: Layout
    workspace_bytes: int
    vocab_size: int
    stage_layers: tuple[int, ...]
    saved: tuple[tuple[Saved, ...], tuple[Saved, ...]]


def _settle(
    model: Transformer,
    plan: Plan,
    training: Training,
    habits: Habits,
    sequence_length: int,
    workspace_bytes: int,
) -> _Setting:
    layout = lay_out(plan, training, sequence_length)
    layers = layers_of_stages(model, plan, balances_head=habits.balances_stages)
    with_experts: tuple[Saved, ...] = ()
    if model.experts is not None:
        with_experts = layer_activations(model, plan, training, habits, layout, has_experts=True)
    return _Setting(
        model=model,
        plan=plan,
        training=training,
        habits=habits,
        layout=layout,
        workspace_bytes=workspace_bytes,
        vocab_size=pad_vocabulary(model.vocab_size, plan.tensor_parallel, habits.vocabulary_multiple),
        stage_layers=layers,
        saved=(layer_activations(model, plan, training, habits, layout, has_experts=False), with_experts),
    )


def _stages(setting: _Setting) -> tuple[StageFootprint, ...]:
    """Every stage; what does not depend on how many micro-batches wait is computed once per kind of stage."""
    held: dict[tuple[int, int, bool, bool], tuple[Term, ...]] = {}
    stages = []
    parts = [
        stage_weights(
            setting.model, setting.plan, stage, vocab_size=setting.vocab_size, layers=setting.stage_layers
        )
        for stage in range(setting.plan.pipeline_parallel)
    ]
    again = [_recomputed(setting, stage, weights) for stage, weights in enumerate(parts)]
    if setting.plan.schedule == "dualpipe":
        again = [own.plus(other) for own, other in zip(again, reversed(again), strict=True)]
        parts = [both_directions(own, other) for own, other in zip(parts, reversed(parts), strict=True)]
    for stage, weights in enumerate(parts):
        kind = (weights.num_dense_layers, weights.num_expert_layers, stage == 0, weights.holds_head)
        if kind not in held:
            held[kind] = _held(setting, weights)
        stages.append(_stage(setting, stage, weights, held[kind], again[stage]))
    return tuple(stages)


def _recomputed(setting: _Setting, stage: int, weights: StageWeights) -> Recomputed:
    first = sum(setting.stage_layers[:stage])
    return recomputed_layers(setting.model, setting.plan, weights, first, setting.stage_layers[stage])


def _held(setting: _Setting, weights: StageWeights) -> tuple[Term, ...]:
    """What is there at every moment."""
    plan, habits = setting.plan, setting.habits
    return (
        *state_terms(weights, plan, setting.training, habits),
        *workspace_terms(setting.workspace_bytes, habits),
        *gathered_terms(weights, plan, habits),
        *offload_terms(weights, plan, habits),
        input_term(setting.layout, setting.training),
    )


def _stage(
    setting: _Setting, stage: int, weights: StageWeights, held: tuple[Term, ...], again: Recomputed
) -> StageFootprint:
    model, plan, training = setting.model, setting.plan, setting.training
    habits, layout, vocab = setting.habits, setting.layout, setting.vocab_size
    in_flight = chunks_in_flight(plan, stage) / chunks_of_a_rank(plan)
    kept = (
        *activation_terms(plan, weights, setting.saved, layout, model.hidden_size, in_flight, again),
        exchange_term(layout, plan, model.hidden_size),
        issued_ahead_term(model, plan, layout, habits),
    )
    moments = [moment("optimizer", held)]
    if weights.num_layers:
        backward = layer_backward_terms(model, plan, training, layout, weights)
        made = (recomputed_term(model, plan, training, weights, setting.saved, layout, again),)
        moments.append(moment("layer backward", held, kept, made, backward))
    if weights.holds_head:
        logits = layout.tokens * (vocab // plan.tensor_parallel)
        head = (head_activation_term(model, layout),)
        moments.append(moment("loss", held, kept, head, loss_terms(logits, training, habits, layout)))
        gradients = head_backward_terms(weights, logits, model, layout, habits)
        moments.append(moment("head backward", held, kept, head, gradients))
    if weights.embedding:
        moments.append(moment("embedding backward", held, (embedding_backward_term(weights, habits),)))
    return StageFootprint(stage, tuple(moments))


def _context_bytes(device: Device | None, plan: Plan) -> int:
    """Of the driver and of one communicator for each axis, on the vendors whose contexts were measured."""
    if device is None or device.vendor != "nvidia":
        return 0
    degrees = (plan.data_parallel, plan.tensor_parallel, plan.pipeline_parallel, plan.context_parallel,
               plan.expert_parallel)  # fmt: skip
    num_communicators = sum(degree > 1 for degree in degrees)
    return driver_context(device).num_bytes + num_communicators * communicator(device).num_bytes


def _assumptions(
    model: Transformer, plan: Plan, training: Training, device: Device | None
) -> tuple[str, ...]:
    notes = [f"habits of {training.framework}; a step in steady state"]
    if training.framework == "fsdp":
        notes.append("activations as fused kernels keep them, in the products' format")
    if device is not None and device.vendor != "nvidia":
        notes.append(f"no context of a driver was measured on devices of {device.vendor}: none is counted")
    if plan.context_parallel > 1:
        notes.append(f"context parallelism by {plan.context_exchange}")
    if model.experts is not None:
        notes.append("tokens spread evenly over the experts")
    return tuple(notes)
