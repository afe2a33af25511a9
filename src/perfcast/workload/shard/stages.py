"""Parts of a cut graph → layers, stages and the work of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import Operation
from perfcast.core.placement import group_of, next_stage
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category, TensorType
from perfcast.core.weights import split_layers
from perfcast.core.work import Call, Calls, Layer, LayerRun, StageWork, Stream
from perfcast.errors import PlanError
from perfcast.workload.shard.parts import Parts
from perfcast.workload.shard.reduction import (
    Bucket,
    GradientReduction,
    fill_buckets,
    gather_calls,
    pass_over,
    reduce_calls,
)
from perfcast.workload.shard.sequences import (
    CallSequence,
    Sequencer,
    build_sequencer,
)
from perfcast.workload.shard.tensor import Cutting
from perfcast.workload.shard.weights import Weight, find_weights, shared_weights


@dataclass(frozen=True)
class Whole:
    """All that stages are made from.

    Attributes:
        of_chunk: Of each part of the plan (stages × virtual stages, in the model's order), the parts of the
            model in it.
    """

    cutting: Cutting
    parts: Parts
    plan: Plan
    reduction: GradientReduction
    weights: tuple[Weight, ...]
    of_chunk: tuple[tuple[int, ...], ...]

    @property
    def graph(self) -> Graph:
        """The whole graph."""
        return self.cutting.graph

    def parts_of_stage(self, stage: int) -> tuple[int, ...]:
        """Parts of the model whose weights a stage holds."""
        pipeline = self.plan.pipeline_parallel
        own = [part for chunk in self.of_chunk[stage::pipeline] for part in chunk]
        if self.plan.schedule == "dualpipe":
            own += [part for part in self.of_chunk[pipeline - 1 - stage] if part not in own]
        return tuple(own)

    def weights_of(self, parts: Sequence[int]) -> list[Weight]:
        """Weights that these parts use."""
        return [weight for weight in self.weights if weight.part in parts]


def lay_out(cutting: Cutting, parts: Parts, plan: Plan, reduction: GradientReduction) -> Whole:
    """Assign parts to the stages of a plan.

    Raises:
        PlanError: More stages than blocks, or layers that do not add up.
    """
    weights = find_weights(cutting, parts)
    return Whole(cutting, parts, plan, reduction, weights, _split(parts, plan))


def _split(parts: Parts, plan: Plan) -> tuple[tuple[int, ...], ...]:
    chunks = plan.pipeline_parallel * plan.virtual_stages_per_rank
    ends = parts.num_blocks + 1
    if chunks == 1:
        return (tuple(range(ends + 1)),)
    if not parts.num_blocks:
        raise PlanError(
            f"pp={plan.pipeline_parallel}: the model has no blocks that repeat (numbered modules of one list) "
            "to cut between; dp and zero can be used"
        )
    counts = plan.stage_layers or split_layers(parts.num_blocks, chunks)
    if len(counts) != chunks or sum(counts) != parts.num_blocks:
        raise PlanError(
            f"layers {' + '.join(map(str, counts))} = {sum(counts)} of {len(counts)} parts, but the model "
            f"has {parts.num_blocks} blocks and pp · vp = {chunks} parts"
        )
    found, first = [], 1
    for at, count in enumerate(counts):
        own = tuple(range(first, first + count))
        found.append(((0,) if at == 0 else ()) + own + ((ends,) if at == chunks - 1 else ()))
        first += count
    return tuple(found)


# ---- layers -------------------------------------------------------------------------------------


@dataclass
class Layers:
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
    """The layers and stages of a plan."""
    plan, layers = whole.plan, Layers()
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
            for chunk in whole.of_chunk[stage :: plan.pipeline_parallel]
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


def _passes(whole: Whole) -> dict[int, tuple[Operation, ...]]:
    """Kernels over a gradient behind the node that makes it ready."""
    plan, reduction = whole.plan, whole.reduction
    is_reduced = (plan.num_dense_replicas > 1 and plan.zero_stage < 3) or reduction.runs_alone
    found: dict[int, tuple[Operation, ...]] = {}
    for weight in _ready_weights(whole.weights):
        kernels = []
        size, dtype = weight.type.num_elements, weight.type.dtype
        if plan.num_micro_batches > 1 and not reduction.runs_alone:
            kernels.append(pass_over("add_", size, dtype, 2, 1))
        if is_reduced and reduction.reads:
            name = "add_" if reduction.reads > 1 else "mul"
            kernels.append(pass_over(name, size, dtype, reduction.reads, reduction.writes))
        if kernels and weight.ready is not None:
            found[weight.ready] = (*found.get(weight.ready, ()), *kernels)
    return found


def _ready_weights(weights: Sequence[Weight]) -> list[Weight]:
    """Those whose gradients are reduced: of a shared one, the use that is ready last."""
    last: dict[int, Weight] = {}
    for weight in weights:
        known = last.get(weight.storage)
        if weight.ready is not None and (known is None or weight.ready > (known.ready or 0)):
            last[weight.storage] = weight
    return list(last.values())


def _buckets_by_part(whole: Whole) -> dict[int, list[Bucket]]:
    """Buckets of every stage, by the part whose backward makes each ready."""
    found: dict[int, list[Bucket]] = {}
    plan = whole.plan
    if plan.zero_stage == 3:
        return found
    for stage in range(plan.pipeline_parallel):
        mine = _ready_weights(whole.weights_of(whole.parts_of_stage(stage)))
        for bucket in fill_buckets(mine, plan, whole.reduction):
            found.setdefault(bucket.part, []).append(bucket)
    return found


def _layer(whole: Whole, sequencer: Sequencer, buckets: Sequence[Bucket], part: int) -> Layer:
    plan = whole.plan
    forward, backward = (sequencer.build(part, phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
    gather: Calls = ()
    exchange: Calls = ()
    dtype = _dtype(whole)
    if plan.zero_stage == 3:
        held = _distinct(whole.weights_of((part,)))
        num_bytes = sum(weight.num_bytes for weight in held)
        gather = tuple(gather_calls(plan, num_bytes, dtype))
        exchange = _sharded_reduction(whole, held, backward, num_bytes)
    elif plan.num_dense_replicas > 1:
        exchange = tuple(
            call
            for bucket in buckets
            for call in reduce_calls(
                plan, whole.reduction, bucket.num_bytes, dtype, (backward.places[bucket.ready],)
            )
        )
    return Layer(
        name=_name(whole.parts, part),
        forward=forward.calls,
        backward=backward.calls,
        gather=gather,
        gather_again=gather if plan.reshard_after_forward and backward.calls else (),
        exchange=exchange,
    )


def _sharded_reduction(whole: Whole, held: Sequence[Weight], backward: CallSequence, num_bytes: int) -> Calls:
    """ZeRO 3 reduces the gradients of a block together, once all are ready."""
    ready = [backward.places[w.ready] for w in held if w.ready is not None]
    if not ready:
        return ()
    return tuple(reduce_calls(whole.plan, whole.reduction, num_bytes, _dtype(whole), (max(ready),)))


def _distinct(weights: Sequence[Weight]) -> list[Weight]:
    return list({weight.storage: weight for weight in weights}.values())


def _name(parts: Parts, part: int) -> str:
    if not parts.num_blocks:
        return "model"
    return "embedding" if part == 0 else "head" if part > parts.num_blocks else "layer"


def _dtype(whole: Whole) -> DType:
    return whole.weights[0].type.dtype if whole.weights else DType.FP32


# ---- once a step --------------------------------------------------------------------------------


def optimizer_of(whole: Whole, stage: int) -> Calls:
    """What a rank of a stage runs behind the last backward: the rest of the reductions, and the update."""
    plan = whole.plan
    held = _distinct(whole.weights_of(whole.parts_of_stage(stage)))
    elements = sum(weight.type.num_elements for weight in held)
    trained = _ready_weights(whole.weights_of(whole.parts_of_stage(stage)))
    calls = [*_sums(whole, stage), *_copies_back(whole, sum(w.type.num_elements for w in trained))]
    update = _update(whole, elements)
    if update and whole.reduction.clips:
        calls += _norm(whole, elements)
    calls += update
    if whole.reduction.clears:
        calls.append(Call(pass_over("zero_", elements, _dtype(whole), 0, 1), module="gradients"))
    if plan.zero_stage in (1, 2):
        calls += gather_calls(plan, sum(w.num_bytes for w in held), _dtype(whole))
    return _chain(calls)


def _chain(calls: Sequence[Call]) -> Calls:
    """Each call behind the one before, whatever its stream."""
    chained: list[Call] = []
    for at, call in enumerate(calls):
        is_other = at > 0 and calls[at - 1].stream is not call.stream
        chained.append(replace(call, after=(at - 1,)) if is_other else call)
    return tuple(chained)


def _sums(whole: Whole, stage: int) -> list[Call]:
    """Gradients of weights that two stages share, and of whole weights of which each rank has a summand."""
    plan, calls = whole.plan, list[Call]()
    shared = _shared_bytes(whole, stage)
    if shared:
        ranks = group_of(plan, "embedding")
        operation = collective_operation(
            "all_reduce", shared, ranks, _dtype(whole), num_groups=plan.ranks_per_stage
        )
        calls.append(Call(operation, Stream.PIPELINE, module="shared weights"))
    mine = set(whole.parts_of_stage(stage))
    summands = [e for e in whole.cutting.exchanges if e.consumer is None]
    num_bytes = sum(e.tensor.num_bytes for e in summands if whole.parts.of_node[e.producer] in mine)
    if num_bytes:
        ranks = group_of(plan, "tensor")
        operation = collective_operation(
            "all_reduce", num_bytes, ranks, _dtype(whole), num_groups=plan.world_size // len(ranks)
        )
        calls.append(Call(operation, Stream.TENSOR, module="summands of gradients"))
    return calls


def _shared_bytes(whole: Whole, stage: int) -> int:
    """Of weights that the first and the last stage hold both.

    Raises:
        PlanError: Other stages share a weight.
    """
    last = whole.plan.pipeline_parallel - 1
    if not last or whole.plan.schedule == "dualpipe":
        return 0
    stage_of = {part: s for s in range(last + 1) for part in whole.parts_of_stage(s)}
    total = 0
    for storage, uses in shared_weights(whole.weights).items():
        stages = {stage_of[use.part] for use in uses}
        if len(stages) > 1 and stages != {0, last}:
            raise PlanError(
                f"pp={last + 1}: stages {sorted(stages)} share a weight of "
                f"{list(whole.graph.tensors[_tensor_of(whole.graph, storage)].type.shape)}; only the first "
                "and the last can"
            )
        if stages == {0, last} and stage in stages:
            total += uses[0].num_bytes
    return total


def _tensor_of(graph: Graph, storage: int) -> int:
    return next(index for index, tensor in enumerate(graph.tensors) if tensor.storage == storage)


def _copies_back(whole: Whole, num_elements: int) -> list[Call]:
    plan, reduction, dtype = whole.plan, whole.reduction, _dtype(whole)
    is_reduced = plan.num_dense_replicas > 1 and plan.zero_stage == 0
    if not (is_reduced and reduction.copies_back and num_elements):
        return []
    return [Call(pass_over("copy_", num_elements, dtype, 1, 1), module="gradients")]


def _update(whole: Whole, num_elements: int) -> list[Call]:
    """The optimizer's kernels, in proportion to the parameters that a rank updates."""
    graph, plan = whole.graph, whole.plan
    total = sum(s.num_bytes for s in graph.storages if s.category == Category.PARAMETER)
    total //= _dtype(whole).bytes_of(8) // 8 or 1
    mine = num_elements if plan.zero_stage == 0 else -(-num_elements // plan.shard_size)
    calls = []
    for node in graph.nodes:
        if node.phase is Phase.OPTIMIZER:
            operation = graph.operations[node.operation]
            if total and mine != total:
                operation = _scaled(operation, mine, total)
            calls.append(Call(operation, module="optimizer", num_launches=0 if operation.is_free else 1))
    return calls


def _scaled(operation: Operation, part: int, whole: int) -> Operation:
    """The same update of fewer parameters, its lists joined to flat tensors."""
    if max((t.num_elements for t in operation.inputs), default=0) <= 1:
        return operation
    return replace(
        operation,
        inputs=_flat(operation.inputs, part, whole),
        outputs=_flat(operation.outputs, part, whole),
        flops=operation.flops * part // whole,
        executed_flops=operation.executed_flops * part // whole,
        memory_traffic_bytes=operation.memory_traffic_bytes * part // whole,
    )


def _flat(tensors: Sequence[TensorType], part: int, whole: int) -> tuple[TensorType, ...]:
    sizes: dict[DType, int] = {}
    for tensor in tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.num_elements
    return tuple(TensorType((size * part // whole,), dtype, (1,)) for dtype, size in sizes.items())


# ---- between stages -----------------------------------------------------------------------------


def find_boundary(whole: Whole) -> Operation | None:
    """What a stage sends the next: what depends on weights and is read behind the cut, the most of all cuts."""
    plan, graph = whole.plan, whole.graph
    if len(whole.of_chunk) < 2:
        return None
    crossing = _crossing(whole)
    num_bytes = max(sum(whole.cutting.local_bytes(s) for s in storages) for storages in crossing)
    largest = max((s for storages in crossing for s in storages), key=lambda s: graph.storages[s].num_bytes)
    dtype = graph.tensors[_tensor_of(graph, largest)].type.dtype
    return collective_operation("send", num_bytes, next_stage(plan), dtype, num_groups=plan.ranks_per_stage)


def _crossing(whole: Whole) -> list[set[int]]:
    """Of each cut, the storages that cross it in the forward."""
    graph, chunk_of = whole.graph, {p: c for c, parts in enumerate(whole.of_chunk) for p in parts}
    made: dict[int, int] = {}
    last_read: dict[int, int] = {}
    depends: set[int] = {i for i, s in enumerate(graph.storages) if s.category == Category.PARAMETER}
    held: Mapping[int, str] = {i: s.category for i, s in enumerate(graph.storages)}
    for index, node in enumerate(graph.nodes):
        if node.phase is not Phase.FORWARD:
            continue
        chunk = chunk_of[whole.parts.of_node[index]]
        inputs = [graph.tensors[tensor].storage for tensor in node.inputs]
        for storage in inputs:
            last_read[storage] = max(last_read.get(storage, 0), chunk)
        for tensor in node.outputs:
            storage = graph.tensors[tensor].storage
            made.setdefault(storage, chunk)
            if any(source in depends for source in inputs) and held[storage] != Category.PARAMETER:
                depends.add(storage)
    cuts: list[set[int]] = [set() for _ in range(len(whole.of_chunk) - 1)]
    for storage, chunk in made.items():
        if storage in depends:
            for cut in range(chunk, last_read.get(storage, chunk)):
                cuts[cut].add(storage)
    return cuts
