from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.machine.host import FROM_HOST, TO_HOST, UPDATE_ON_HOST, uses_host
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.model.weights import count_parameters
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.training import FRAMEWORKS, Training
from perfcast.core.work import Calls, StepWork, Stream
from perfcast.workload.blocks import build_step_work

GPT = Transformer(
    num_layers=12, hidden_size=256, num_attention_heads=4, num_kv_heads=4, head_size=64,
    ffn_hidden_size=1024, vocab_size=1024, positions="learned", max_positions=64, ties_embeddings=False,
)  # fmt: skip
MEGATRON = Training(framework="megatron")


def rows_of(work: StepWork) -> list[list[list[tuple[str, int]]]]:
    """Of each stage, of each chunk: names of layers and how many in a row."""
    return [
        [[(work.layers[run.layer].name, run.count) for run in chunk] for chunk in stage.chunks]
        for stage in work.stages
    ]


def build(plan: Plan, model: Transformer = GPT, framework: str = "megatron") -> StepWork:
    return build_step_work(model, plan, Training(framework=framework), 64)


def test_the_ends_stand_on_the_first_and_the_last_stage() -> None:
    assert rows_of(build(Plan(pipeline_parallel=3))) == [
        [[("embedding", 1), ("layer", 4)]],
        [[("layer", 4)]],
        [[("layer", 4), ("head", 1)]],
    ]


def test_chunk_c_of_stage_s_is_part_c_pp_plus_s() -> None:
    plan = Plan(
        pipeline_parallel=2, virtual_stages_per_rank=3, schedule="interleaved", num_micro_batches=2,
        stage_layers=(1, 2, 3, 3, 2, 1),
    )  # fmt: skip
    assert rows_of(build(plan)) == [
        [[("embedding", 1), ("layer", 1)], [("layer", 3)], [("layer", 2)]],
        [[("layer", 2)], [("layer", 3)], [("layer", 1), ("head", 1)]],
    ]


def test_layers_of_a_stage_are_dealt_out_to_its_chunks() -> None:
    plan = Plan(
        pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved", num_micro_batches=2,
        stage_layers=(7, 5),
    )  # fmt: skip
    assert rows_of(build(plan)) == [
        [[("embedding", 1), ("layer", 4)], [("layer", 3)]],
        [[("layer", 3)], [("layer", 2), ("head", 1)]],
    ]


def test_a_program_that_counts_the_head_gives_the_last_stage_fewer_layers() -> None:
    wide = replace(GPT, vocab_size=16384)
    counts = [
        sum(n for name, n in stage[0] if name == "layer")
        for stage in rows_of(build(Plan(pipeline_parallel=4), wide, "nanotron"))
    ]
    assert sum(counts) == 12
    assert counts[-1] < counts[0]


def test_experts_follow_the_dense_layers() -> None:
    model = replace(GPT, experts=Experts(4, 2, 512, num_dense_layers=2))
    assert rows_of(build(Plan(pipeline_parallel=2), model))[0] == [
        [("embedding", 1), ("layer", 2), ("expert layer", 4)]
    ]


@given(
    pipeline=st.integers(1, 6),
    chunks=st.integers(1, 2),
    tensor=st.sampled_from((1, 2, 4)),
    framework=st.sampled_from(FRAMEWORKS),
)
def test_no_layer_is_lost(pipeline: int, chunks: int, tensor: int, framework: str) -> None:
    plan = Plan(
        pipeline_parallel=pipeline, tensor_parallel=tensor, virtual_stages_per_rank=chunks,
        schedule="interleaved" if chunks > 1 else "1f1b",
    )  # fmt: skip
    names = [item for stage in rows_of(build(plan, framework=framework)) for chunk in stage for item in chunk]
    assert sum(count for name, count in names if name == "layer") == 12
    assert names[0] == ("embedding", 1)
    assert sum(count for name, count in names if name == "head") == 1


def updated(calls: Calls) -> int:
    """Elements of the optimizer's pass."""
    (update,) = (c.operation for c in calls if c.operation.name == "_fused_adamw_")
    return update.inputs[0].num_elements


@pytest.mark.parametrize(("zero_stage", "share"), [(0, 1), (1, 4), (2, 4), (3, 4)])
def test_zero_divides_the_update(zero_stage: int, share: int) -> None:
    plan = Plan(data_parallel=4, zero_stage=zero_stage)
    assert updated(build(plan).stages[0].optimizer) == count_parameters(GPT) // share


def test_stages_update_what_they_hold() -> None:
    work = build(Plan(pipeline_parallel=3))
    assert sum(updated(stage.optimizer) for stage in work.stages) == count_parameters(GPT)


def test_dualpipe_ranks_update_both_parts_that_they_hold() -> None:
    plan = Plan(pipeline_parallel=2, schedule="dualpipe", num_micro_batches=4)
    assert all(updated(stage.optimizer) == count_parameters(GPT) for stage in build(plan).stages)


def test_adam_in_one_pass_reads_four_numbers_and_writes_three() -> None:
    (update,) = (
        c.operation for c in build(Plan()).stages[0].optimizer if c.operation.name == "_fused_adamw_"
    )
    assert update.memory_traffic_bytes == 4 * (4 + 3) * count_parameters(GPT)


def test_adam_step_by_step_moves_more() -> None:
    eager = build_step_work(GPT, Plan(), Training(framework="pytorch"), 64).stages[0].optimizer
    moved = sum(
        c.operation.memory_traffic_bytes for c in eager if c.operation.kind is OperationKind.OPTIMIZER
    )
    assert moved > 2 * 4 * 7 * count_parameters(GPT)


def test_no_optimizer_leaves_nothing_to_run() -> None:
    work = build_step_work(GPT, Plan(), Training(framework="megatron", optimizer="none"), 64)
    assert work.stages[0].optimizer == ()


def test_an_update_on_the_host_sends_gradients_out_and_weights_in() -> None:
    calls = build(Plan(offload="optimizer")).stages[0].optimizer
    host = [c for c in calls if uses_host(c.operation)]
    assert [c.operation.name for c in host] == [TO_HOST, UPDATE_ON_HOST, FROM_HOST]
    assert {c.stream for c in host} == {Stream.COPY}
    sent, updated_, taken = (c.operation.memory_traffic_bytes // count_parameters(GPT) for c in host)
    assert (sent, updated_, taken) == (4, 28, 2)


def test_weights_on_the_host_come_in_for_each_pass_over_a_layer() -> None:
    layer = build(Plan(offload="parameters")).layers[1]
    assert [c.operation.name for c in layer.gather] == [FROM_HOST]
    assert layer.gather_again == layer.gather


def test_activations_on_the_host_leave_beside_the_forward_and_return_beside_the_backward() -> None:
    plain, away = build(Plan(data_parallel=2)), build(Plan(data_parallel=2, offload="activations"))
    assert away.layers[1].forward[:-1] == plain.layers[1].forward
    out, back = away.layers[1].forward[-1], away.layers[1].backward[-1]
    assert (out.operation.name, back.operation.name) == (TO_HOST, FROM_HOST)
    assert away.layers[1].gradient_reduction == plain.layers[1].gradient_reduction


def test_less_is_kept_where_the_layer_is_recomputed() -> None:
    kept = {
        recompute: build(Plan(offload="activations", recompute=recompute)).layers[1].forward[-1].operation
        for recompute in ("none", "full")
    }
    assert kept["full"].memory_traffic_bytes == 64 * 256 * 2
    assert kept["none"].memory_traffic_bytes > 8 * kept["full"].memory_traffic_bytes
