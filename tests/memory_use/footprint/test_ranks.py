"""What a rank holds: micro-batches in flight, counted on the papers' schedules, and parts of a model."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.model.transformer import Experts
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.memory_use.footprint.ranks import Holding, chunks_in_flight, chunks_of_ranks
from small_transformers import gpt, llama, rank_of


def plan(stages: int, micro_batches: int, schedule: str = "1f1b", chunks: int = 1) -> Plan:
    return Plan(
        pipeline_parallel=stages,
        num_micro_batches=micro_batches,
        schedule=schedule,
        virtual_stages_per_rank=chunks,
    )


def in_flight(each: Plan) -> list[int]:
    """Of every stage."""
    stages = np.arange(each.pipeline_parallel)
    return chunks_in_flight(to_table([each] * len(stages)), stages).tolist()


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_1f1b_holds_one_micro_batch_less_on_each_later_stage(schedule: str):
    assert in_flight(plan(4, 16, schedule)) == [4, 3, 2, 1]


def test_gpipe_holds_all_of_them_everywhere():
    assert in_flight(plan(4, 16, "gpipe")) == [16] * 4


def test_interleaving_holds_chunks_of_a_smaller_share():
    """p = 4, v = 2: 2 (p - i - 1) + (v - 1) p + 1; in micro-batches 5.5, 4.5, 3.5 and 2.5."""
    assert in_flight(plan(4, 16, "interleaved", 2)) == [11, 9, 7, 5]


def test_interleaving_costs_one_plus_p_minus_one_over_p_v_of_memory():
    """Korthikanti et al., section 4.2.3: the first stage holds L (1 + (p - 1) / (p v)) layers."""
    stages, chunks = 8, 4
    held = in_flight(plan(stages, 64, "interleaved", chunks))[0] / chunks
    assert held / stages == pytest.approx(1 + (stages - 1) / (stages * chunks))


def test_without_a_pipeline_one_micro_batch_waits():
    assert in_flight(plan(1, 16)) == [1]


@given(
    st.integers(1, 16),
    st.integers(1, 32),
    st.sampled_from(
        [(1, "1f1b"), (1, "gpipe"), (1, "zero_bubble"), *((chunks, "interleaved") for chunks in (2, 3, 4))]
    ),
)
def test_no_stage_holds_more_than_there_is_nor_more_than_the_stage_before(
    stages: int, micro_batches: int, way: tuple[int, str]
):
    chunks, schedule = way
    held = in_flight(plan(stages, micro_batches, schedule, chunks))
    assert all(1 <= count <= micro_batches * chunks for count in held)
    assert held == sorted(held, reverse=True)


def test_dualpipe_holds_one_micro_batch_more_than_there_are_stages_on_every_rank():
    both_ways = Plan(pipeline_parallel=8, num_micro_batches=32, schedule="dualpipe")
    assert in_flight(both_ways) == [9] * 8
    assert chunks_of_ranks(to_table([both_ways])).tolist() == [2]


def parts(each: Plan, stage: int) -> list[int]:
    """Layers without and with experts, those of each computed again, embeddings, heads, whole models.

    None of their layers is frozen or has linear attention.
    """
    model = llama(experts=Experts(8, 2, 96, num_dense_layers=3), num_prediction_layers=1)
    held = rank_of(model, each, stage).holding
    found = [int(getattr(held, field.name)[0]) for field in fields(Holding)]
    assert found[-5:] == [0, 0, 0, 0, 0]
    return found[:-5]


def test_stages_hold_layers_in_the_models_order_and_its_ends():
    """Eight layers of which three are dense, and one further prediction layer behind them."""
    assert parts(Plan(), 0) == [3, 6, 0, 0, 1, 0, 1]
    four = Plan(pipeline_parallel=4)
    assert [parts(four, stage) for stage in range(4)] == [
        [2, 0, 0, 0, 1, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [0, 2, 0, 0, 0, 0, 0],
        [0, 3, 0, 0, 0, 1, 0],
    ]


def test_a_rank_of_dualpipe_holds_the_stage_at_the_other_end_too():
    both_ways = Plan(pipeline_parallel=4, num_micro_batches=8, schedule="dualpipe")
    assert parts(both_ways, 0) == parts(both_ways, 3) == [2, 3, 0, 0, 1, 1, 0]


def test_the_first_layers_of_each_chunk_are_computed_again():
    """Layers 0 to 3 on the first stage, in chunks of two; 4 to 7 on the second; three are dense."""
    chunks = Plan(
        pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved", num_micro_batches=4,
        recompute="full", recompute_layers=1,
    )  # fmt: skip
    assert [parts(chunks, stage)[2:4] for stage in (0, 1)] == [[2, 0], [0, 2]]
    assert [parts(replace(chunks, recompute_layers=None), stage)[2:4] for stage in (0, 1)] == [[3, 1], [0, 5]]


def test_a_tied_head_has_a_table_of_its_own_behind_a_pipeline():
    alone, behind = (rank_of(gpt(), plan(stages, 4), stages - 1) for stages in (1, 2))
    outside = [int(rank.outside(rank.weights.elements)[0]) for rank in (alone, behind)]
    assert outside == [512 * 64 + 32 * 64 + 2 * 64, 512 * 64 + 2 * 64]


def test_only_matrices_of_kinds_of_layer_that_are_there_count_as_shapes():
    """Queries with keys and values, attention's output, up and down of an MLP, of experts, or of both."""
    found = []
    for num_dense in (8, 4, 0):
        rank = rank_of(llama(experts=Experts(8, 2, 96, num_dense_layers=num_dense)), Plan())
        kinds = (rank.weights.num_shapes, rank.weights.shape_elements)
        found.append([int(rank.of_kinds(figures)[0]) for figures in kinds])
    attention, mlp, expert = (64 + 2 * 32) * 64 + 64 * 64, 3 * 192 * 64, 3 * 96 * 64
    assert found == [[4, attention + mlp], [6, attention + mlp + expert], [4, attention + expert]]


def test_passes_that_run_side_by_side_hold_one_forward_more():
    beside = replace(plan(4, 16), data_parallel=4, expert_parallel=4, overlaps_experts=True)
    assert in_flight(beside) == [5, 4, 3, 2]
    assert in_flight(replace(beside, num_micro_batches=1)) == [1] * 4
    assert in_flight(replace(beside, schedule="zero_bubble")) == [4, 3, 2, 1]
