from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from perfcast.core.collective import message_bytes, num_groups
from perfcast.core.dtype import DType
from perfcast.core.model.attention_weights import count_elements
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import count_parameters, kinds_of_layer
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import Calls, Layer, StepWork, Stream
from perfcast.workload.blocks import build_step_work

GPT = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=51200, positions="learned", max_positions=512,
)  # fmt: skip
MEGATRON, FSDP = Training(framework="megatron"), Training(framework="fsdp")
BATCH, SEQUENCE, HIDDEN = 2, 512, 1024
#: Tokens × hidden in bf16.
WHOLE = BATCH * SEQUENCE * HIDDEN * 2


def layer_of(work: StepWork, name: str = "layer") -> Layer:
    return next(layer for layer in work.layers if layer.name == name)


def exchanged(calls: Calls) -> Counter[tuple[str, int]]:
    return Counter(
        (c.operation.name, message_bytes(c.operation))
        for c in calls
        if c.operation.kind is OperationKind.COLLECTIVE
        for _ in range(c.count)
    )


def test_without_sequence_parallelism_a_layer_all_reduces_four_times() -> None:
    """Two in the forward and two in the backward (Shoeybi et al. 2019, figure 4)."""
    plan = Plan(tensor_parallel=4, micro_batch_size=BATCH)
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    assert exchanged(layer.forward) == {("all_reduce", WHOLE): 2}
    assert exchanged(layer.backward) == {("all_reduce", WHOLE): 2}


def test_sequence_parallelism_moves_the_same_bytes_and_gathers_two_inputs_again() -> None:
    """An all-reduce is a reduce-scatter and an all-gather (Korthikanti et al. 2022, section 4.2.2)."""
    plan = Plan(tensor_parallel=4, sequence_parallel=True, micro_batch_size=BATCH)
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    assert exchanged(layer.forward) == {("all_gather", WHOLE): 2, ("reduce_scatter", WHOLE): 2}
    assert exchanged(layer.backward) == {("all_gather", WHOLE): 4, ("reduce_scatter", WHOLE): 2}


def test_a_program_that_keeps_gathered_inputs_gathers_none_again() -> None:
    plan = Plan(tensor_parallel=4, sequence_parallel=True, micro_batch_size=BATCH)
    layer = layer_of(build_step_work(GPT, plan, FSDP, SEQUENCE))
    assert exchanged(layer.backward)["all_gather", WHOLE] == 2


def test_megatron_reduces_an_inputs_gradient_beside_the_product_of_the_weights() -> None:
    layer = layer_of(build_step_work(GPT, Plan(tensor_parallel=4), MEGATRON, SEQUENCE))
    calls = layer.backward
    for at, call in enumerate(calls):
        if call.operation.name != "all_reduce":
            continue
        behind = [other for other in calls[at + 1 :] if other.stream is Stream.COMPUTE]
        assert behind[0].is_weight_gradient
        assert at not in behind[0].after
        first_waiting = next(other for other in behind if at in other.after)
        assert not first_waiting.is_weight_gradient


def test_deepspeed_waits_for_it() -> None:
    layer = layer_of(build_step_work(GPT, Plan(tensor_parallel=4), Training(framework="deepspeed"), SEQUENCE))
    calls = layer.backward
    for at, call in enumerate(calls):
        if call.operation.name == "all_reduce":
            assert at in calls[at + 1].after


def test_overlapped_collectives_move_the_same_bytes_in_parts() -> None:
    plan = Plan(tensor_parallel=4, sequence_parallel=True, micro_batch_size=BATCH, overlaps_tensor=True)
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    assert exchanged(layer.forward) == {("send", WHOLE // 4): 2 * 3, ("reduce_scatter", WHOLE // 4): 2 * 4}
    parts = [c for c in layer.forward if c.module == "mlp.up" and c.operation.uses_matrix_units]
    assert [c.operation.attribute("m") for c in parts] == [BATCH * SEQUENCE // 4] * 4


def test_the_loss_reduces_three_numbers_of_each_token() -> None:
    plan = Plan(tensor_parallel=4, micro_batch_size=BATCH)
    head = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE), "head")
    assert exchanged(head.forward) == {("all_reduce", 4 * BATCH * SEQUENCE): 3}


def test_the_embedding_is_summed_over_the_ranks_that_cut_its_words() -> None:
    plan = Plan(tensor_parallel=4, micro_batch_size=BATCH)
    embedding = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE), "embedding")
    assert exchanged(embedding.forward) == {("all_reduce", WHOLE): 1}
    cut = layer_of(
        build_step_work(GPT, replace(plan, sequence_parallel=True), MEGATRON, SEQUENCE), "embedding"
    )
    assert exchanged(cut.forward) == {("reduce_scatter", WHOLE): 1}
    assert exchanged(cut.backward) == {("all_gather", WHOLE): 1}


def volume_of(work: StepWork) -> float:
    """Elements that a rank sends for one step of one micro-batch: a reduce-scatter or an all-gather of ψ
    sends ψ, an all-reduce 2ψ (ZeRO, section 7.1, for many ranks)."""
    sent = 0.0
    for run in work.stages[0].chunks[0]:
        layer = work.layers[run.layer]
        for calls in (layer.gradient_reduction, layer.gather, layer.gather_again):
            for (name, size), count in exchanged(calls).items():
                width = next(c.operation.compute_dtype for c in calls if c.operation.name == name).bits // 8
                sent += run.count * count * (2 if name == "all_reduce" else 1) * size / width
    return sent


@pytest.mark.parametrize(
    ("zero_stage", "times"),
    [(0, 2), (1, 2), (2, 2), (3, 3)],
)
def test_zero_moves_the_papers_volumes(zero_stage: int, times: int) -> None:
    """2ψ up to stage 2, 3ψ with stage 3 (Rajbhandari et al. 2020, sections 7.2.1 and 7.2.2)."""
    work = build_step_work(GPT, Plan(data_parallel=64, zero_stage=zero_stage), FSDP, SEQUENCE)
    assert volume_of(work) == times * count_parameters(GPT)


def test_kept_weights_are_not_gathered_again() -> None:
    plan = Plan(data_parallel=64, zero_stage=3, reshard_after_forward=False)
    work = build_step_work(GPT, plan, FSDP, SEQUENCE)
    assert volume_of(work) == 2 * count_parameters(GPT)


def test_hybrid_sharding_scatters_in_a_group_and_reduces_over_its_copies() -> None:
    plan = Plan(data_parallel=16, zero_stage=3, num_shards=8)
    layer = layer_of(build_step_work(GPT, plan, FSDP, SEQUENCE))
    size = 2 * count_elements(kinds_of_layer(GPT, plan)[0])
    assert exchanged(layer.gradient_reduction) == {("reduce_scatter", size): 1, ("all_reduce", size // 8): 1}
    scatter, reduce = (c.operation for c in layer.gradient_reduction if c.is_collective)
    assert (scatter.attribute("ranks"), num_groups(scatter)) == ("0:8:1", 2)
    assert (reduce.attribute("ranks"), num_groups(reduce)) == ("0:16:8", 8)
    assert exchanged(layer.gather) == {("all_gather", size): 1}


def test_megatron_reduces_fp32_and_gathers_bf16() -> None:
    plan = Plan(data_parallel=8, zero_stage=1)
    work = build_step_work(GPT, plan, MEGATRON, SEQUENCE)
    elements = count_elements(kinds_of_layer(GPT, plan)[0])
    together = min(GPT.num_layers, 40 * 10**6 // elements)
    assert exchanged(layer_of(work).gradient_reduction) == {("reduce_scatter", 4 * elements * together): 1}
    assert exchanged(layer_of(work).gather) == {("all_gather", 2 * elements * together): 1}
    assert {call.num_runs for call in layer_of(work).gradient_reduction} == {1 / together}
    assert not work.reduces_gradients_each_micro_batch
    assert not work.gathers_each_micro_batch


def test_more_replicas_make_megatrons_buckets_larger() -> None:
    few, many = (
        build_step_work(GPT, Plan(data_parallel=count, zero_stage=1), MEGATRON, SEQUENCE)
        for count in (8, 4096)
    )
    (small,), (large,) = layer_of(few).gradient_reduction, layer_of(many).gradient_reduction
    assert message_bytes(large.operation) > message_bytes(small.operation)
    assert large.num_runs * message_bytes(large.operation) == pytest.approx(
        small.num_runs * message_bytes(small.operation)
    )


def test_a_program_that_cannot_gather_beside_the_forward_gathers_after_the_update() -> None:
    plan = Plan(data_parallel=8, zero_stage=1)
    work = build_step_work(GPT, plan, Training(framework="nanotron"), SEQUENCE)
    assert not any(layer.gather for layer in work.layers)
    assert exchanged(work.stages[0].optimizer)["all_gather", 2 * count_parameters(GPT)] == 1
    assert any("after the update" in note for note in work.assumptions)


def test_buckets_cut_the_gradients() -> None:
    plan = Plan(data_parallel=8, bucket_bytes=10**6)
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    size = 4 * count_elements(kinds_of_layer(GPT, plan)[0])
    (call,) = layer.gradient_reduction
    assert call.count == -(-size // 10**6)
    assert size <= call.count * message_bytes(call.operation) < size + call.count


def test_gradients_are_exchanged_behind_the_last_kernel_of_the_backward() -> None:
    plan = Plan(data_parallel=8, tensor_parallel=2)
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    assert layer.gradient_reduction[0].after == (len(layer.backward) - 1,)


def test_context_parallel_ranks_are_replicas_too() -> None:
    plan = Plan(data_parallel=2, context_parallel=2)
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    assert layer.gradient_reduction[0].operation.attribute("ranks") == "0:4:1"


def test_one_replica_exchanges_nothing() -> None:
    work = build_step_work(GPT, Plan(zero_stage=1), MEGATRON, SEQUENCE)
    assert all(not layer.gradient_reduction and not layer.gather for layer in work.layers)


@pytest.mark.parametrize(("sequence_parallel", "share"), [(False, 1), (True, 4)])
def test_stages_send_their_part_of_the_tokens(sequence_parallel: bool, share: int) -> None:
    plan = Plan(
        pipeline_parallel=2, tensor_parallel=4, data_parallel=2, micro_batch_size=BATCH,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip
    boundary = build_step_work(GPT, plan, MEGATRON, SEQUENCE).boundary
    assert boundary is not None
    assert (boundary.name, message_bytes(boundary)) == ("send", WHOLE // share)
    assert boundary.attribute("ranks") == "0:16:8"
    assert num_groups(boundary) == 8


def test_all_groups_of_a_kind_exchange_at_once() -> None:
    plan = Plan(tensor_parallel=4, data_parallel=2, pipeline_parallel=2)
    work = build_step_work(GPT, plan, MEGATRON, SEQUENCE)
    for call in layer_of(work).forward:
        if call.is_collective:
            assert num_groups(call.operation) == 4


def test_first_and_last_stage_share_the_gradient_of_a_tied_table() -> None:
    plan = Plan(pipeline_parallel=4)
    work = build_step_work(GPT, plan, MEGATRON, SEQUENCE)
    size = 4 * 51200 * HIDDEN
    sharing = [("all_reduce", size) in exchanged(stage.optimizer) for stage in work.stages]
    assert sharing == [True, False, False, True]
    untied = build_step_work(replace(GPT, ties_embeddings=False), plan, MEGATRON, SEQUENCE)
    assert ("all_reduce", size) not in exchanged(untied.stages[0].optimizer)


def test_norms_of_a_cut_sequence_are_summed_once_a_step() -> None:
    plan = Plan(tensor_parallel=4, sequence_parallel=True)
    work = build_step_work(GPT, plan, MEGATRON, SEQUENCE)
    vectors = (8 * 2 + 1) * 2 * HIDDEN
    assert exchanged(work.stages[0].optimizer)["all_reduce", 4 * vectors] == 1


def test_fp16_gradients_stay_in_fp16() -> None:
    layer = layer_of(
        build_step_work(GPT, Plan(data_parallel=2), Training(framework="megatron", dtype="fp16"), SEQUENCE)
    )
    assert layer.gradient_reduction[0].operation.compute_dtype is DType.FP16


def test_fp8_training_gathers_operands_in_one_byte_and_reduces_in_two() -> None:
    plan = Plan(tensor_parallel=8, sequence_parallel=True)
    eight = layer_of(build_step_work(GPT, plan, Training(framework="megatron", dtype="fp8"), SEQUENCE))
    sixteen = layer_of(build_step_work(GPT, plan, MEGATRON, SEQUENCE))
    narrow, wide = exchanged(eight.forward), exchanged(sixteen.forward)
    gathered = {size: count for (name, size), count in wide.items() if name == "all_gather"}
    assert {s: n for (name, s), n in narrow.items() if name == "all_gather"} == {
        size // 2: count for size, count in gathered.items()
    }
    scattered = [(key, count) for key, count in wide.items() if key[0] == "reduce_scatter"]
    assert [(key, count) for key, count in narrow.items() if key[0] == "reduce_scatter"] == scattered
