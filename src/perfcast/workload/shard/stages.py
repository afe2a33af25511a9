"""Parts of a cut graph → different layers, each once, and the stages that run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perfcast.core.graph import Phase
from perfcast.core.operation import Operation
from perfcast.core.work import Calls, Layer, LayerRun, StageWork
from perfcast.workload.shard.layout import Whole
from perfcast.workload.shard.once import optimizer_of
from perfcast.workload.shard.parts import Parts
from perfcast.workload.shard.reduction import Bucket, fill_buckets, gather_calls, pass_over, reduce_calls
from perfcast.workload.shard.sequences import CallSequence, Sequencer, build_sequencer
from perfcast.workload.shard.weights import Weight, distinct, ready_weights


@dataclass
class _Layers:
    """Different layers, each once."""

    found: list[Layer] = field(default_factory=list)
    numbers: dict[Layer, int] = field(default_factory=dict)

    def number(self, layer: Layer) -> int:
        """Index of a layer; a new one where it differs from all before."""
        if layer not in self.numbers:
            self.numbers[layer] = len(self.found)
            self.found.append(layer)
        return self.numbers[layer]


def build_stages(whole: Whole) -> tuple[tuple[Layer, ...], tuple[StageWork, ...]]:
    """The layers and stages of a plan.

    Raises:
        PlanError: See ``once.optimizer_of``.
    """
    plan, layers = whole.plan, _Layers()
    sequencer = build_sequencer(whole.cutting, whole.parts, plan, _passes(whole))
    buckets = _buckets_by_part(whole)
    numbers = {}
    for part in range(whole.parts.num_parts):
        layer = _layer(whole, sequencer, buckets.get(part, ()), part)
        if any(layer.parts()):
            numbers[part] = layers.number(layer)
    stages = []
    for stage in range(plan.pipeline_parallel):
        chunks = tuple(
            _runs([numbers[part] for part in chunk if part in numbers])
            for chunk in whole.chunks[stage :: plan.pipeline_parallel]
        )
        stages.append(StageWork(chunks, optimizer_of(whole, stage)))
    return tuple(layers.found), tuple(stages)


def _runs(numbers: Sequence[int]) -> tuple[LayerRun, ...]:
    runs: list[LayerRun] = []
    for number in numbers:
        if runs and runs[-1].layer == number:
            runs[-1] = LayerRun(number, runs[-1].count + 1)
        else:
            runs.append(LayerRun(number, 1))
    return tuple(runs)


def _layer(whole: Whole, sequencer: Sequencer, buckets: Sequence[Bucket], part: int) -> Layer:
    plan, dtype = whole.plan, whole.dtype
    forward, backward = (sequencer.build(part, phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
    gather: Calls = ()
    gradient_reduction: Calls = ()
    if plan.zero_stage == 3:
        held = distinct(whole.weights_of((part,)))
        gather = tuple(gather_calls(plan, sum(weight.num_bytes for weight in held), dtype))
        gradient_reduction = _sharded_reduction(whole, held, backward)
    elif plan.num_dense_replicas > 1:
        gradient_reduction = tuple(
            call
            for bucket in buckets
            for call in reduce_calls(plan, bucket.num_bytes, dtype, (backward.places[bucket.ready],))
        )
    again = gather if plan.reshard_after_forward and backward.calls else ()
    return Layer(_name(whole.parts, part), forward.calls, backward.calls, gather, again, gradient_reduction)


def _name(parts: Parts, part: int) -> str:
    if not parts.num_blocks:
        return "model"
    return "embedding" if part == 0 else "head" if part > parts.num_blocks else "layer"


# ---- gradients ----------------------------------------------------------------------------------


def _passes(whole: Whole) -> dict[int, tuple[Operation, ...]]:
    """Kernels over a gradient behind the node that makes it ready."""
    plan, reduction = whole.plan, whole.reduction
    is_reduced = (plan.num_dense_replicas > 1 and plan.zero_stage < 3) or reduction.runs_alone
    found: dict[int, tuple[Operation, ...]] = {}
    for weight in ready_weights(whole.weights):
        kernels = []
        size, dtype = weight.type.num_elements, weight.type.dtype
        if plan.num_micro_batches > 1 and not reduction.runs_alone:
            kernels.append(pass_over("add_", size, dtype, 2, 1))
        if is_reduced and reduction.reads:
            kernels.append(pass_over("mul", size, dtype, reduction.reads, reduction.writes))
        if kernels and weight.ready is not None:
            found[weight.ready] = (*found.get(weight.ready, ()), *kernels)
    return found


def _buckets_by_part(whole: Whole) -> dict[int, list[Bucket]]:
    """Buckets of every stage, by the part whose backward makes each ready."""
    found: dict[int, list[Bucket]] = {}
    plan = whole.plan
    for stage in range(plan.pipeline_parallel if plan.zero_stage < 3 else 0):
        mine = ready_weights(whole.weights_of(whole.parts_of_stage(stage)))
        for bucket in fill_buckets(mine, plan, whole.reduction):
            found.setdefault(bucket.part, []).append(bucket)
    return found


def _sharded_reduction(whole: Whole, held: Sequence[Weight], backward: CallSequence) -> Calls:
    """ZeRO 3 reduces the gradients of a block together, once all are ready."""
    trained = [weight for weight in held if weight.ready is not None]
    if not trained:
        return ()
    after = max(backward.places[weight.ready] for weight in trained if weight.ready is not None)
    num_bytes = sum(weight.num_bytes for weight in trained)
    return tuple(reduce_calls(whole.plan, num_bytes, whole.dtype, (after,)))
