"""Tensor parallelism of captured graphs: what is cut, what is exchanged, what cannot be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from captured import BATCH, HIDDEN, LAYERS, SEQUENCE, VOCABULARY, captured
from torch import Tensor, nn

from perfcast.core.collective import message_bytes
from perfcast.core.operation import MATRIX_KINDS, Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.work import Call, StepWork, Stream
from perfcast.errors import PlanError
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.shard import shard_graph
from perfcast.workload.step import OptimizerChoice, Program

TOKENS = BATCH * SEQUENCE
ACTIVATION_BYTES = TOKENS * HIDDEN * 4


def calls_of(work: StepWork) -> Iterator[tuple[Call, int]]:
    for stage in work.stages:
        for run in (run for chunk in stage.chunks for run in chunk):
            layer = work.layers[run.layer]
            yield from ((call, run.count * call.count) for call in (*layer.forward, *layer.backward))


def flops_of(work: StepWork) -> int:
    return sum(c.operation.flops * n for c, n in calls_of(work) if c.operation.kind in MATRIX_KINDS)


def recorded_collectives(work: StepWork) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for call, count in calls_of(work):
        if call.is_collective:
            assert call.stream is Stream.TENSOR
            found[call.operation.name, message_bytes(call.operation)] += count
    return found


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt", "gptj"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_the_products_evenly(
    name: str, attention: str, sequence_parallel: bool, ranks: int
) -> None:
    graph = captured(name, attention=attention)
    work = shard_graph(graph, Plan(tensor_parallel=ranks, sequence_parallel=sequence_parallel))
    assert flops_of(work) * ranks == graph.flops
    assert not [note for note in work.assumptions if note.startswith("tp=")]


@pytest.mark.parametrize(("name", "whole"), [("bert", 0.03), ("vit", 0.06), ("mixtral", 0.01)])
def test_what_is_outside_of_blocks_or_routes_stays_whole(name: str, whole: float) -> None:
    graph = captured(name)
    excess = flops_of(shard_graph(graph, Plan(tensor_parallel=2))) * 2 / graph.flops - 1
    assert 0 < excess < whole


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt"])
def test_collectives_are_those_of_megatron(name: str) -> None:
    """Two sums a layer and pass, one behind the embedding, one of the head's input; three numbers a row."""
    work = shard_graph(captured(name), Plan(tensor_parallel=2))
    assert recorded_collectives(work) == {
        ("all_reduce", ACTIVATION_BYTES): 4 * LAYERS + 2,
        ("all_reduce", 4 * TOKENS): 3,
    }


def test_layers_side_by_side_share_their_sums() -> None:
    found = recorded_collectives(shard_graph(captured("gptj"), Plan(tensor_parallel=2)))
    assert found["all_reduce", ACTIVATION_BYTES] == 2 * LAYERS + 2


def test_a_sequence_that_is_cut_is_gathered_and_scattered_with_the_same_bytes() -> None:
    """A sum is a scatter and a gather; the backward gathers once more what column products read."""
    work = shard_graph(captured("gpt2"), Plan(tensor_parallel=2, sequence_parallel=True))
    found = recorded_collectives(work)
    assert found["reduce_scatter", ACTIVATION_BYTES] == 4 * LAYERS + 2
    assert found["all_gather", ACTIVATION_BYTES] == 4 * LAYERS + 2 * LAYERS + 1 + 1 + 1
    norms = [c for c in work.layers[1].forward if c.operation.name == "native_layer_norm"]
    assert {call.operation.inputs[0].shape for call in norms} == {(BATCH, SEQUENCE // 2, HIDDEN)}


def test_summands_are_exchanged_in_the_type_of_the_products() -> None:
    found = recorded_collectives(
        shard_graph(captured("llama", dtype="bf16", attention="sdpa"), Plan(tensor_parallel=2))
    )
    assert found["all_reduce", ACTIVATION_BYTES // 2] == 4 * LAYERS + 1
    assert found["all_reduce", ACTIVATION_BYTES] == 1  # the embedding's, whose table is fp32


def operations(work: StepWork, name: str) -> list[Operation]:
    return [call.operation for call in (*work.layers[1].forward,) if call.operation.name == name]


def test_columns_then_rows_and_heads_between() -> None:
    work = shard_graph(captured("gpt2"), Plan(tensor_parallel=4))
    qkv, output, up, down = (dict(o.attributes) for o in operations(work, "addmm"))
    assert (qkv["n"], qkv["k"]) == (3 * HIDDEN // 4, HIDDEN)
    assert (output["n"], output["k"]) == (HIDDEN, HIDDEN // 4)
    assert (up["n"], down["k"]) == (HIDDEN, HIDDEN)
    scores, context = operations(work, "bmm")
    assert dict(scores.attributes)["batch"] == BATCH * 8 // 4
    assert context.outputs[0].shape == (BATCH * 2, SEQUENCE, HIDDEN // 8)
    (softmax,) = operations(work, "_softmax")
    assert softmax.inputs[0].shape == (BATCH, 2, SEQUENCE, SEQUENCE)


def test_grouped_keys_and_fused_attention_are_cut_by_heads() -> None:
    work = shard_graph(captured("llama", attention="sdpa"), Plan(tensor_parallel=4))
    (attention,) = operations(work, "attention")
    sizes = dict(attention.attributes)
    assert (sizes["heads"], sizes["kv_heads"]) == (2, 1)
    whole = next(o for o in captured("llama", attention="sdpa").operations if o.name == "attention")
    assert attention.flops * 4 == whole.flops


def test_the_vocabulary_is_cut_where_it_divides() -> None:
    assert VOCABULARY % 4 == 0
    (head,) = [c.operation for c in shard_graph(captured("gpt2"), Plan(tensor_parallel=4)).layers[2].forward
               if c.operation.kind is OperationKind.MATMUL]  # fmt: skip
    assert dict(head.attributes)["n"] == VOCABULARY // 4


def test_blocking_collectives_hold_up_the_next_kernel_and_others_their_reader_alone() -> None:
    blocking = shard_graph(captured("gpt2"), Plan(tensor_parallel=2)).layers[1].backward
    for at, call in enumerate(blocking):
        if call.is_collective:
            assert at in blocking[at + 1].after
    beside = shard_graph(captured("gpt2"), Plan(tensor_parallel=2, overlaps_tensor=True)).layers[1].backward
    up = next(at for at, call in enumerate(beside) if call.is_collective)
    assert beside[up + 1].operation.kind is OperationKind.MATMUL  # the weight's gradient
    assert beside[up + 1].is_weight_gradient
    assert beside[up + 1].after == ()
    reader = next(call for call in beside if up in call.after)
    assert reader.operation.name == "native_layer_norm_backward"


def test_an_overlapped_collective_goes_before_the_product_of_the_weight() -> None:
    """A backward that makes the weight's gradient first would leave the collective nothing to run beside."""
    backward = shard_graph(captured("opt"), Plan(tensor_parallel=2, overlaps_tensor=True)).layers[1].backward
    at = next(at for at, call in enumerate(backward) if call.is_collective)
    assert not backward[at - 1].is_weight_gradient
    assert backward[at + 1].is_weight_gradient


# ---- what cannot be cut -------------------------------------------------------------------------


def test_heads_that_do_not_divide_are_an_error_with_the_numbers() -> None:
    with pytest.raises(PlanError, match=r"tp=3 does not divide 8: dim 1 of .* of transformer\.h\.0\.attn"):
        shard_graph(captured("gpt2"), Plan(tensor_parallel=3))
    with pytest.raises(PlanError, match=r"tp=8 does not divide 4: dim 1 of \[2, 4, 32, 8\]"):
        shard_graph(captured("llama"), Plan(tensor_parallel=8))


def test_convolutions_are_not_cut_and_the_message_says_what_can_be() -> None:
    with pytest.raises(PlanError, match=r"tp=2: no product of a block with a weight can be cut.*dp, and pp"):
        shard_graph(captured("resnet"), Plan(tensor_parallel=2))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(context_parallel=2), "cp=2: a captured graph can be cut by dp, zero, tp, sp and pp, not by cp"),
        (Plan(expert_parallel=2, data_parallel=2), "ep=2: a captured graph can be cut by dp"),
        (Plan(tensor_parallel=4, tensor_parallel_inputs=2), "tp_inputs=2"),
        (Plan(offload="optimizer"), "offload=optimizer"),
        (Plan(recompute="full"), "captured without recomputation"),
    ],
)
def test_what_is_not_done_to_captured_graphs_is_said(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        shard_graph(captured("gpt2"), plan)


def test_a_sequence_needs_tokens_to_be_cut_along() -> None:
    with pytest.raises(PlanError, match="no input \\[sequences, tokens\\]"):
        shard_graph(captured("vit"), Plan(tensor_parallel=2, sequence_parallel=True))


def test_several_micro_batches_in_a_graph_are_refused() -> None:
    with pytest.raises(PlanError, match="several micro-batches; capture one"):
        shard_graph(captured("gpt2", micro_batches=2), Plan())


# ---- a module of one's own ----------------------------------------------------------------------


class Mlp(nn.Module):
    """Up, gelu, down, and the sum with the input; no numbered blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


def test_an_mlp_without_blocks_is_cut_by_data_flow() -> None:
    graph, _ = capture(
        lambda: Program(Mlp(), (torch.empty(8, 16, requires_grad=True),)),
        CaptureOptions(optimizer=OptimizerChoice("none")),
    )
    work = shard_graph(graph, Plan(tensor_parallel=2), num_tokens=8)
    assert [layer.name for layer in work.layers] == ["model"]
    assert flops_of(work) * 2 == graph.flops
    assert recorded_collectives(work) == {("all_reduce", 8 * 16 * 4): 2}
