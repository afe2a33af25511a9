"""Data and pipeline parallelism of captured graphs: buckets, stages, what crosses, what runs once a step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from captured import BATCH, HIDDEN, LAYERS, SEQUENCE, VOCABULARY, captured
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.tensor import TensorType
from perfcast.core.work import Call, StepWork, Stream
from perfcast.errors import PlanError
from perfcast.units import MIB
from perfcast.workload.models.transformer import read_transformer
from perfcast.workload.shard import MEGATRON_DDP, shard_graph
from perfcast.workload.shard.cuts import Cut, cut_dim, local_type, period_of
from perfcast.workload.shard.reduction import TORCH_DDP, fill_buckets
from perfcast.workload.shard.weights import Weight


def parameter_bytes() -> int:
    """Of GPT-2, which is captured when the first test asks."""
    return 4 * captured("gpt2").parameter_count


def kernels(work: StepWork) -> Counter[Operation]:
    found: Counter[Operation] = Counter()
    for stage in work.stages:
        for run in (run for chunk in stage.chunks for run in chunk):
            layer = work.layers[run.layer]
            for call in (*layer.forward, *layer.backward):
                found[call.operation] += run.count
    return found


def nodes(graph: Graph) -> Counter[Operation]:
    return Counter(graph.operations[n.operation] for n in graph.nodes if n.phase is not Phase.OPTIMIZER)


def exchanged(work: StepWork, name: str = "") -> list[Call]:
    return [
        c
        for layer in work.layers
        for c in layer.gradient_reduction
        if c.is_collective and name in c.operation.name
    ]


@pytest.mark.parametrize("name", ["gpt2", "llama", "vit", "resnet"])
def test_one_device_is_the_identity(name: str) -> None:
    graph = captured(name, optimizer="adamw")
    work = shard_graph(graph, Plan())
    assert kernels(work) == nodes(graph)
    update = [graph.operations[n.operation] for n in graph.nodes if n.phase is Phase.OPTIMIZER]
    assert [call.operation for call in work.stages[0].optimizer] == update
    assert work.boundary is None
    assert (work.flops, not exchanged(work)) == (graph.flops, True)


def test_equal_layers_stand_once() -> None:
    work = shard_graph(captured("gpt2"), Plan())
    assert [layer.name for layer in work.layers] == ["embedding", "layer", "head"]
    assert [run.count for run in work.stages[0].chunks[0]] == [1, LAYERS, 1]
    assert work.num_tokens == BATCH * SEQUENCE


@pytest.mark.parametrize("stages", [2, 4])
def test_stages_partition_the_nodes(stages: int) -> None:
    graph = captured("gpt2")
    work = shard_graph(graph, Plan(pipeline_parallel=stages, num_micro_batches=1))
    assert kernels(work) == nodes(graph)
    counts = [sum(run.count for run in stage.chunks[0]) for stage in work.stages]
    assert counts == [LAYERS // stages + 1, *[LAYERS // stages] * (stages - 2), LAYERS // stages + 1]


def test_a_boundary_carries_the_hidden_states() -> None:
    work = shard_graph(captured("gpt2"), Plan(pipeline_parallel=2))
    assert work.boundary is not None
    assert message_bytes(work.boundary) == BATCH * SEQUENCE * HIDDEN * 4
    cut = shard_graph(captured("gpt2"), Plan(pipeline_parallel=2, tensor_parallel=2, sequence_parallel=True))
    assert cut.boundary is not None
    assert message_bytes(cut.boundary) == BATCH * SEQUENCE * HIDDEN * 4 // 2


def test_uneven_and_interleaved_stages() -> None:
    uneven = shard_graph(captured("gpt2"), Plan(pipeline_parallel=2, stage_layers=(1, 3)))
    assert [sum(run.count for run in stage.chunks[0]) for stage in uneven.stages] == [2, 4]
    plan = Plan(pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved", num_micro_batches=2)
    chunks = [
        [sum(run.count for run in chunk) for chunk in s.chunks]
        for s in shard_graph(captured("gpt2"), plan).stages
    ]
    assert chunks == [[2, 1], [1, 2]]
    with pytest.raises(PlanError, match=r"layers 1 \+ 2 = 3 in 2 parts, but the model has 4 blocks"):
        shard_graph(captured("gpt2"), Plan(pipeline_parallel=2, stage_layers=(1, 2)))
    with pytest.raises(PlanError, match="pp=8 stages need at least as many layers; the model has 4"):
        shard_graph(captured("gpt2"), Plan(pipeline_parallel=8))


def test_a_shared_table_is_summed_over_the_first_and_the_last_stage() -> None:
    work = shard_graph(captured("gpt2"), Plan(pipeline_parallel=4))
    shared = [[c for c in stage.optimizer if c.stream is Stream.PIPELINE] for stage in work.stages]
    assert [len(calls) for calls in shared] == [1, 0, 0, 1]
    operation = shared[0][0].operation
    assert message_bytes(operation) == VOCABULARY * HIDDEN * 4
    assert list(group_ranks(operation)) == [0, 3]
    assert not any(c.is_collective for s in shard_graph(captured("llama"), Plan(pipeline_parallel=4)).stages
                   for c in s.optimizer)  # fmt: skip


# ---- gradients ----------------------------------------------------------------------------------


def test_replicas_reduce_every_gradient_once() -> None:
    work = shard_graph(captured("gpt2"), Plan(data_parallel=4, bucket_bytes=100_000))
    by_layer = [
        (layer, [message_bytes(c.operation) for c in layer.gradient_reduction]) for layer in work.layers
    ]
    counts = {run.layer: 0 for run in work.stages[0].chunks[0]}
    for run in work.stages[0].chunks[0]:
        counts[run.layer] += run.count
    total = sum(counts[at] * sum(found) for at, (_, found) in enumerate(by_layer))
    assert total == parameter_bytes()
    assert work.flops == 4 * captured("gpt2").flops


def test_a_bucket_waits_for_its_last_gradient() -> None:
    work = shard_graph(captured("llama"), Plan(data_parallel=2, bucket_bytes=1))
    layer = next(layer for layer in work.layers if layer.name == "layer")
    assert len(layer.gradient_reduction) == 9  # seven matrices and two norms, each a bucket of its own
    for call in layer.gradient_reduction:
        (after,) = call.after
        assert layer.backward[after].is_weight_gradient
        assert call.stream is Stream.DATA


def test_the_first_bucket_of_ddp_is_small() -> None:
    def gradient(node: int, num_elements: int) -> Weight:
        return Weight(node, 0, TensorType((num_elements,), DType.FP32, (1,)), node)

    ready = [gradient(at, MIB // 4) for at in range(60)]
    buckets = fill_buckets(ready, Plan(data_parallel=2), TORCH_DDP)
    assert [b.num_bytes // MIB for b in buckets] == [1, 25, 25, 9]
    assert [b.ready for b in buckets] == [0, 25, 50, 59]
    (whole,) = fill_buckets(ready, Plan(data_parallel=2), MEGATRON_DDP)
    assert (whole.num_bytes, whole.ready) == (60 * MIB, 59)


def test_ddp_scales_gradients_into_buckets_and_copies_them_back() -> None:
    alone, several = (shard_graph(captured("gpt2"), Plan(data_parallel=n)) for n in (1, 2))
    more = kernels(several) - kernels(alone)
    assert {operation.name for operation in more} == {"mul"}
    assert sum(o.memory_traffic_bytes * n for o, n in more.items()) == 2 * parameter_bytes()
    (back,) = several.stages[0].optimizer
    assert (back.operation.name, back.operation.memory_traffic_bytes) == ("copy_", 2 * parameter_bytes())


def test_micro_batches_accumulate() -> None:
    work = shard_graph(captured("gpt2"), Plan(num_micro_batches=4))
    more = kernels(work) - nodes(captured("gpt2"))
    assert sum(o.memory_traffic_bytes * n for o, n in more.items()) == 3 * parameter_bytes()
    assert work.num_tokens == 4 * BATCH * SEQUENCE


def test_megatron_takes_norms_scales_and_clears_its_buffer() -> None:
    work = shard_graph(captured("gpt2", optimizer="adamw"), Plan(tensor_parallel=2), reduction=MEGATRON_DDP)
    names = [call.operation.name for call in work.stages[0].optimizer]
    assert names[:4] == ["norm", "mul_", "norm", "all_reduce"]
    assert names[-1] == "zero_"
    assert not work.overlaps_gradient_reduction


@pytest.mark.parametrize("stage", [1, 2])
def test_sharded_gradients_are_scattered_and_weights_gathered_behind_the_update(stage: int) -> None:
    graph = captured("gpt2", optimizer="adamw")
    work = shard_graph(graph, Plan(data_parallel=4, zero_stage=stage))
    assert {c.operation.name for c in exchanged(work)} == {"reduce_scatter"}
    *update, gather = work.stages[0].optimizer
    assert message_bytes(gather.operation) == parameter_bytes()
    whole = [graph.operations[n.operation] for n in graph.nodes if n.phase is Phase.OPTIMIZER]
    parts = sum(call.operation.memory_traffic_bytes for call in update)
    assert parts == pytest.approx(sum(o.memory_traffic_bytes for o in whole) / 4, rel=0.001)


def test_sharded_weights_are_gathered_for_both_passes() -> None:
    work = shard_graph(captured("gpt2"), Plan(data_parallel=4, zero_stage=3))
    layer = work.layers[1]
    model = read_transformer({"model_type": "gpt2", "n_embd": HIDDEN, "n_head": 8, "n_layer": LAYERS,
                              "vocab_size": VOCABULARY}, "GPT2LMHeadModel")  # fmt: skip
    per_layer = 4 * (12 * model.hidden_size**2 + 13 * model.hidden_size)
    (gather,) = [c for c in layer.gather if c.is_collective]
    assert message_bytes(gather.operation) == per_layer
    assert layer.gather_again == layer.gather
    (reduce,) = [c for c in layer.gradient_reduction if c.is_collective]
    assert (reduce.operation.name, message_bytes(reduce.operation)) == ("reduce_scatter", per_layer)
    kept = shard_graph(captured("gpt2"), Plan(data_parallel=4, zero_stage=3, reshard_after_forward=False))
    assert not kept.layers[1].gather_again


def test_hybrid_sharding_reduces_shards_over_their_copies() -> None:
    work = shard_graph(captured("gpt2"), Plan(data_parallel=8, zero_stage=3, num_shards=4))
    scatter, reduce = [c.operation for c in work.layers[1].gradient_reduction if c.is_collective]
    assert list(group_ranks(scatter)) == [0, 1, 2, 3]
    assert list(group_ranks(reduce)) == [0, 4]
    assert message_bytes(reduce) == math.ceil(message_bytes(scatter) / 4)


def test_an_inference_has_no_gradients() -> None:
    graph = captured("gpt2")
    forward = [n for n in graph.nodes if n.phase is Phase.FORWARD]
    work = shard_graph(replace(graph, nodes=tuple(forward)), Plan(data_parallel=2, tensor_parallel=2))
    assert all(not layer.backward and not layer.gradient_reduction for layer in work.layers)


# ---- cuts of memory -----------------------------------------------------------------------------


@given(
    rows=st.integers(1, 6),
    heads=st.sampled_from([2, 4, 8]),
    size=st.integers(1, 5),
    ranks=st.sampled_from([1, 2]),
)
def test_one_period_follows_a_tensor_through_views(rows: int, heads: int, size: int, ranks: int) -> None:
    """[rows, heads · size] by columns is [rows, heads, size] by heads, transposed or not."""
    period = heads * size
    flat = TensorType((rows, period), DType.FP32, (period, 1))
    split = TensorType((rows, heads, size), DType.FP32, (period, size, 1))
    turned = TensorType((heads, rows, size), DType.FP32, (size, period, 1))
    parts = [local_type(t, cut_dim(t, period), period, ranks, "x") for t in (flat, split, turned)]
    assert [part.num_elements * ranks for part in parts] == [rows * period] * 3
    assert parts[1].shape == (rows, heads // ranks, size)
    assert parts[2].shape == (heads // ranks, rows, size)
    dim = cut_dim(split, period)
    assert dim is not None
    assert Cut(period_of(split, dim.dim, dim.run)).period == period


def test_a_part_that_does_not_divide_is_an_error() -> None:
    tensor = TensorType((4, 6), DType.FP32, (6, 1))
    with pytest.raises(PlanError, match=r"tp=4 does not divide 6: dim 1 of \[4, 6\] in x"):
        local_type(tensor, cut_dim(tensor, 6), 6, 4, "x")


def test_collectives_have_no_kernel_kind() -> None:
    work = shard_graph(captured("gpt2"), Plan(tensor_parallel=2))
    waits = [c for layer in work.layers for c in layer.forward if c.operation.name == "wait"]
    assert all(c.operation.kind is OperationKind.ALLOCATION and c.num_launches == 0 for c in waits)
