"""A training step of a plan: layers, stages and what stands between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from perfcast.core.collective import collective_operation
from perfcast.core.model.attention_weights import Weight
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import (
    StageWeights,
    check_degrees,
    kinds_of_layer,
    pad_vocabulary,
    stage_weights,
)
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import next_stage
from perfcast.core.training import Training
from perfcast.core.work import Call, Calls, Layer, StageWork, StepWork, Stream
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.tuning import check_trained
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.blocks.experts.routing import dispatch_assumptions, kept_share, routing_assumptions
from perfcast.workload.blocks.layer import training as layers
from perfcast.workload.blocks.local import Local, local_part, weight_type
from perfcast.workload.blocks.step.assumptions import assumptions_of
from perfcast.workload.blocks.step.data_parallel import (
    ParameterCounts,
    gather_calls,
    reduce_calls,
    reduces_gradients,
    side_rules,
)
from perfcast.workload.blocks.step.flops import flops_per_sequence, recomputed_flops
from perfcast.workload.blocks.step.messages import with_messages
from perfcast.workload.blocks.step.offload import incoming_weights, with_activations_away
from perfcast.workload.blocks.step.optimizer import (
    gathers_after_step,
    optimizer_calls,
    shared_embedding,
    shared_norms,
)
from perfcast.workload.blocks.step.parameters import HeldParameters, adapters_of_layer, hold
from perfcast.workload.blocks.step.stages import LayerKey, LayerSort, ModelPart, runs_of, split_model


def build_step_work(model: Transformer, plan: Plan, training: Training, sequence_length: int) -> StepWork:
    """What each rank of a plan runs in a training step, each different layer once.

    Raises:
        PlanError: A plan that cannot cut this model; the message has the equation that fails.
    """
    _check(model, plan, sequence_length)
    check_trained(model, training)
    whole = _Whole(model, plan, training, sequence_length)
    profile = load_training_profile(training.framework)
    parts = split_model(model, plan, balances=profile.balances_stages, tuning=training.tuning)
    built = _collect_layers(whole, parts)
    order = {key: place for place, key in enumerate(built)}
    stages = _stages(whole, parts, order)
    found = tuple(built.values())
    rules = side_rules(plan, training)
    work = StepWork(
        plan=plan,
        layers=found,
        stages=stages,
        boundary=_boundary(whole),
        reduces_gradients_each_micro_batch=rules.reduces_gradients_each_micro_batch,
        gathers_each_micro_batch=rules.gathers_each_micro_batch,
        overlaps_gradient_reduction=rules.overlaps_gradient_reduction,
        overlaps_gather=rules.overlaps_gather,
        host_waits=rules.host_waits,
        num_tokens=plan.global_batch_size * sequence_length,
        flops=plan.global_batch_size
        * flops_per_sequence(model, sequence_length, kept_share(plan), training.tuning),
        recompute_flops=recomputed_flops(found, stages, plan),
        assumptions=(
            *assumptions_of(plan, training),
            *routing_assumptions(model, plan),
            *dispatch_assumptions(model, plan, profile.kernels.dispatch),
        ),
    )
    return with_messages(work, profile.kernels.message_launches)


@dataclass(frozen=True, slots=True)
class _Whole:
    """What a step is built from."""

    model: Transformer
    plan: Plan
    training: Training
    sequence_length: int

    def local(self, *, has_window: bool = False, keeps_all: bool = False, is_frozen: bool = False) -> Local:
        """A layer's part of it."""
        plan = local_part(self.plan)
        if keeps_all:
            plan = replace(plan, recompute="none")
        return Local(
            self.model, plan, self.training, self.sequence_length, has_window=has_window, is_frozen=is_frozen
        )

    def held(self, key: LayerKey) -> HeldParameters:
        """What a rank has of a layer or an end."""
        if isinstance(key, str):
            return hold(self.training, _end_weights(self, key))
        plan = local_part(self.plan)
        weights = kinds_of_layer(self.model, plan)[key.has_experts]
        adapters = adapters_of_layer(self.model, plan, self.training, has_experts=key.has_experts)
        return hold(self.training, weights, adapters, is_frozen=key.is_frozen)

    @property
    def vocab_size(self) -> int:
        """Rows of the whole table, padded."""
        multiple = load_training_profile(self.training.framework).vocabulary_multiple
        return pad_vocabulary(self.model.vocab_size, self.plan.tensor_parallel, multiple)


def _check(model: Transformer, plan: Plan, sequence_length: int) -> None:
    check_degrees(model, plan)
    if plan.sequence_parallel and plan.tensor_parallel_inputs > 1:
        raise PlanError(
            f"sp=1 with tp_inputs={plan.tensor_parallel_inputs}: 2-D tensor parallelism cuts the hidden size "
            "outside the products, sequence parallelism the tokens; take one of them"
        )
    if model.hidden_size % plan.tensor_parallel_inputs:
        raise PlanError(
            f"tp_inputs={plan.tensor_parallel_inputs} does not divide a hidden size of {model.hidden_size}"
        )
    cuts = plan.context_parallel * (plan.tensor_parallel if plan.sequence_parallel else 1)
    if sequence_length % cuts:
        raise PlanError(
            f"cp={plan.context_parallel} · tp={plan.tensor_parallel} = {cuts} ranks do not divide a "
            f"sequence of {sequence_length}"
            if plan.sequence_parallel
            else f"cp={plan.context_parallel} does not divide a sequence of {sequence_length}"
        )


# ---- layers ----------------------------------------------------------------------------------------------


def _collect_layers(whole: _Whole, parts: tuple[ModelPart, ...]) -> dict[LayerKey, Layer]:
    """Each different layer once, in the order of the model."""
    sorts = dict.fromkeys(sort for part in parts for sort, _ in part.layers)
    found: dict[LayerKey, Layer] = {ends.EMBEDDING: _end(whole, ends.EMBEDDING)}
    found |= {sort: _layer(whole, sort) for sort in sorts}
    if whole.model.num_prediction_layers:
        found[ends.PREDICTION] = _end(whole, ends.PREDICTION)
    return {**found, ends.HEAD: _end(whole, ends.HEAD)}


def _layer(whole: _Whole, sort: LayerSort) -> Layer:
    local = whole.local(has_window=sort.has_window, keeps_all=sort.keeps_all, is_frozen=sort.is_frozen)
    calls = layer_calls(local, sort, whole.plan.offload)
    of_stage = max(1, whole.model.num_layers // whole.plan.pipeline_parallel)
    overlaps = sort.has_experts and whole.plan.overlaps_passes
    return _with_reductions(whole, sort.name, *calls, whole.held(sort), of_stage, overlaps_passes=overlaps)


def layer_calls(
    local: Local, sort: LayerSort, offload: str, forward_of: Local | None = None
) -> tuple[Calls, Calls]:
    """Forward and backward of a layer; one that no gradient reaches keeps nothing and has no backward.

    Args:
        forward_of: Where the forward is looked up as another layer's, which runs the same one.
    """
    forward = layers.layer_forward(forward_of or local, sort.has_experts)
    if sort.is_idle:
        return forward, ()
    return with_activations_away(local, offload, forward, layers.layer_backward(local, sort.has_experts))


def _end(whole: _Whole, name: str) -> Layer:
    """The embedding, the head, or what stands beside a layer that predicts further; a tied table is exchanged
    with the embedding."""
    local = whole.local()
    forward, backward = {
        ends.EMBEDDING: (ends.embedding_forward, ends.embedding_backward),
        ends.PREDICTION: (ends.prediction_forward, ends.prediction_backward),
        ends.HEAD: (ends.head_forward, ends.head_backward),
    }[name]
    return _with_reductions(whole, name, forward(local), backward(local), whole.held(name))


def _with_reductions(
    whole: _Whole,
    name: str,
    forward: Calls,
    backward: Calls,
    parameters: HeldParameters,
    num_layers: int = 1,
    *,
    overlaps_passes: bool = False,
) -> Layer:
    plan, training = whole.plan, whole.training
    gather = incoming_weights(plan, training, parameters.held)
    if not gathers_after_step(plan, training):
        gather = (*gather, *gather_calls(plan, training, parameters.gathered(plan), num_layers))
    comes_again = plan.offload == "parameters" or (plan.zero_stage == 3 and plan.reshard_after_forward)
    last = max((at for at, call in enumerate(backward) if call.stream is Stream.COMPUTE), default=-1)
    reduces = reduces_gradients(plan) and last >= 0
    return Layer(
        name=name,
        forward=forward,
        backward=backward,
        gather=gather,
        gather_again=gather if comes_again and last >= 0 else (),
        gradient_reduction=reduce_calls(plan, training, parameters.trained, last, num_layers)
        if reduces
        else (),
        overlaps_passes=overlaps_passes,
    )


def _end_weights(whole: _Whole, name: str) -> tuple[Weight, ...]:
    if name == ends.PREDICTION:
        hidden = whole.model.hidden_size
        return (Weight("joined", hidden // whole.plan.tensor_parallel, 2 * hidden),)
    last = whole.plan.pipeline_parallel - 1
    at = 0 if name == ends.EMBEDDING else last
    stage = _stage_weights(whole.model, local_part(whole.plan), at, whole.vocab_size)
    return stage.embedding if name == ends.EMBEDDING else stage.head


@lru_cache(maxsize=1024)
def _stage_weights(model: Transformer, plan: Plan, stage: int, vocab_size: int) -> StageWeights:
    """Only the ends are read of it, which do not depend on how layers are dealt out."""
    spread = (model.num_layers, *(0,) * (plan.pipeline_parallel - 1))
    return stage_weights(model, plan, stage, vocab_size=vocab_size, layers=spread)


# ---- stages ----------------------------------------------------------------------------------------------


def _stages(whole: _Whole, parts: tuple[ModelPart, ...], order: dict[LayerKey, int]) -> tuple[StageWork, ...]:
    """All of them; stages that hold the same update the same."""
    count, is_mirrored = whole.plan.pipeline_parallel, whole.plan.schedule == "dualpipe"
    own = [parts[stage::count] for stage in range(count)]
    held = [(*mine, *(own[count - 1 - at] if is_mirrored else ())) for at, mine in enumerate(own)]
    updates = {kept: _optimizer(whole, kept) for kept in dict.fromkeys(held)}
    return tuple(
        StageWork(tuple(runs_of(part, order) for part in mine), updates[kept])
        for mine, kept in zip(own, held, strict=True)
    )


def _optimizer(whole: _Whole, parts: tuple[ModelPart, ...]) -> Calls:
    """The update of all that a stage's rank holds, and reductions of gradients that go before."""
    plan, training = whole.plan, whole.training
    total, tensors, vectors = ParameterCounts(0), 0, 0
    for key, count in (item for part in parts for item in part.contents()):
        mine = whole.held(key)
        total += mine.trained.times(count)
        tensors += count * mine.num_tensors
        vectors += count * mine.num_norms
    shares = [shared_norms(plan, training, vectors)]
    at_end = any(part.has_embedding or part.has_head for part in parts)
    if whole.model.ties_embeddings and at_end and training.tuning.trains("embedding"):
        rows = math.ceil(whole.vocab_size / plan.tensor_parallel)
        width = whole.model.embedding_size or whole.model.hidden_size
        shares.append(shared_embedding(plan, training, rows * width))
    found: tuple[Call, ...] = tuple(call for call in shares if call is not None)
    return optimizer_calls(plan, training, total, num_tensors=tensors, shares=found)


def _boundary(whole: _Whole) -> Operation | None:
    """Sequences of a micro-batch times what a rank has of them, in activations."""
    plan, ranks = whole.plan, next_stage(whole.plan)
    if len(ranks) < 2:
        return None
    local = whole.local()
    message_bytes = weight_type(whole.training).bytes_of(local.own_tokens * local.own_hidden)
    return collective_operation("send", message_bytes, ranks, local.element, num_groups=plan.ranks_per_stage)
