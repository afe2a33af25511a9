"""Micro-batches in flight, counted on the schedules of the papers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import Plan
from perfcast.memory.footprint.pipeline import chunks_in_flight, chunks_of_a_rank


def plan(stages: int, micro_batches: int, schedule: str = "1f1b", chunks: int = 1) -> Plan:
    return Plan(
        pipeline_parallel=stages,
        num_micro_batches=micro_batches,
        schedule=schedule,
        virtual_stages_per_rank=chunks,
    )


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_1f1b_holds_one_micro_batch_less_on_each_later_stage(schedule: str):
    assert [chunks_in_flight(plan(4, 16, schedule), stage) for stage in range(4)] == [4, 3, 2, 1]


def test_gpipe_holds_all_of_them_everywhere():
    assert [chunks_in_flight(plan(4, 16, "gpipe"), stage) for stage in range(4)] == [16] * 4


def test_interleaving_holds_chunks_of_a_smaller_share():
    """p = 4, v = 2: 2 (p - i - 1) + (v - 1) p + 1; in micro-batches 5.5, 4.5, 3.5 and 2.5."""
    held = [chunks_in_flight(plan(4, 16, "interleaved", 2), stage) for stage in range(4)]
    assert held == [11, 9, 7, 5]


def test_interleaving_costs_one_plus_p_minus_one_over_p_v_of_memory():
    """Korthikanti et al., section 4.2.3: the first stage holds L (1 + (p - 1) / (p v)) layers."""
    stages, chunks = 8, 4
    held = chunks_in_flight(plan(stages, 64, "interleaved", chunks), 0) / chunks
    assert held / stages == pytest.approx(1 + (stages - 1) / (stages * chunks))


def test_without_a_pipeline_one_micro_batch_waits():
    assert chunks_in_flight(plan(1, 16), 0) == 1


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
    held = [chunks_in_flight(plan(stages, micro_batches, schedule, chunks), stage) for stage in range(stages)]
    assert all(1 <= count <= micro_batches * chunks for count in held)
    assert held == sorted(held, reverse=True)


def test_dualpipe_holds_one_micro_batch_more_than_there_are_stages_on_every_rank():
    both_ways = Plan(pipeline_parallel=8, num_micro_batches=32, schedule="dualpipe")
    assert [chunks_in_flight(both_ways, stage) for stage in range(8)] == [9] * 8
    assert chunks_of_a_rank(both_ways) == 2
