"""Weights, gradients and optimizer state against the figures of ZeRO (SC 2020) and Megatron-LM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.model.attention_weights import Weight
from perfcast.core.plan import Plan
from perfcast.core.training import FRAMEWORKS, OPTIMIZERS, Training
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint.states import (
    bucket_term,
    gradient_term,
    local_gradient_term,
    master_term,
    moment_term,
    state_terms,
    weight_terms,
)
from small_transformers import gpt, llama, memory_profile, mixture, one, one_rank, rank_of, sizes

BILLIONS = Weight("all", 7_500_000, 1000)
ADAM = Training(optimizer="adam")
MATRIX, VECTOR = Weight("matrix", 30, 20), Weight("vector", 30, 1)
EXPERTS = Weight("experts", 30, 20, count=4, is_expert=True)
TABLE = Weight("embedding", 100, 20)


def states(plan: Plan, training: Training = ADAM, **changes: object) -> int:
    return sum(sizes(state_terms(one_rank(plan, BILLIONS), training, memory_profile(**changes))))


def moments(optimizer: str, plan: Plan | None = None) -> int:
    rank = one_rank(
        plan or Plan(), MATRIX, VECTOR, experts=(EXPERTS,), embedding=(TABLE,), optimizer=optimizer
    )
    return one(moment_term(rank, Training(optimizer=optimizer))).num_bytes


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_7_5_billion_parameters_on_64_devices_as_in_figure_1_of_zero(zero: int, gigabytes: float):
    assert states(Plan(data_parallel=64, zero_stage=zero)) / 1e9 == pytest.approx(gigabytes, abs=0.05)


@pytest.mark.parametrize(("dtype", "alone", "whole", "shared"), [("bf16", 18, 6, 12), ("fp32", 16, 8, 8)])
@pytest.mark.parametrize("replicas", [2, 8, 64])
def test_the_distributed_optimizer_as_in_megatrons_table(
    dtype: str, alone: int, whole: int, shared: int, replicas: int
):
    training = Training(framework="megatron", dtype=dtype, optimizer="adam")
    own = load_training_profile(training.framework).memory_of(training.dtype)

    def each(zero: int) -> float:
        plan = Plan(data_parallel=replicas, zero_stage=zero)
        terms = state_terms(one_rank(plan, BILLIONS), training, own)
        return sum(sizes(term for term in terms if term.name != "dummy gradients")) / 7.5e9

    assert each(0) == alone
    assert each(1) == pytest.approx(whole + shared / replicas)


def test_context_parallel_ranks_share_the_optimizer_too():
    both = Plan(data_parallel=4, context_parallel=2, zero_stage=1)
    assert states(both) == states(Plan(data_parallel=8, zero_stage=1))


def test_experts_are_sharded_over_their_own_replicas():
    """Eight ranks, experts spread over four of them: dense over eight, experts over two."""
    plan = Plan(data_parallel=8, expert_parallel=4, zero_stage=3)
    rank, own = one_rank(plan, MATRIX, experts=(EXPERTS,)), memory_profile()
    assert one(*weight_terms(rank, ADAM, own)).num_bytes == 2 * 600 // 8 + 2 * 2400 // 2
    assert one(gradient_term(rank, own)).num_bytes == 2 * 600 // 8 + 2 * 2400 // 2
    assert one(master_term(rank)).num_bytes == 4 * 600 // 8 + 4 * 2400 // 2
    for optimizer, dense, expert in (("adam", 4800, 19200), ("muon", 2400, 9600), ("adafactor", 200, 800)):
        rank = one_rank(plan, MATRIX, experts=(EXPERTS,), optimizer=optimizer)
        assert one(moment_term(rank, Training(optimizer=optimizer))).num_bytes == dense // 8 + expert // 2


@pytest.mark.parametrize(
    ("optimizer", "num_bytes"),
    [
        ("none", 0),
        ("sgd", 0),
        ("momentum", 4 * (600 + 30 + 2400 + 2000)),
        ("adam", 8 * (600 + 30 + 2400 + 2000)),
        ("adamw", 8 * (600 + 30 + 2400 + 2000)),
        ("adamw_8bit", round(2 * (1 + 4 / 256) * (600 + 30 + 2400 + 2000))),
        ("adafactor", 4 * (50 + 30 + 4 * 50 + 120)),
        ("muon", 4 * (600 + 2400) + 8 * (30 + 2000)),
    ],
)
def test_moments_by_hand(optimizer: str, num_bytes: int):
    assert moments(optimizer) == num_bytes


@pytest.mark.parametrize("place", ["optimizer", "parameters"])
def test_an_offloaded_optimizer_leaves_no_state_on_the_device(place: str):
    plan = Plan(offload=place)
    assert moments("adamw", plan) == moments("muon", plan) == 0
    rank = one_rank(plan, BILLIONS)
    assert one(master_term(rank)).num_bytes == 0
    assert (one(*weight_terms(rank, ADAM, memory_profile())).num_bytes == 0) is (place == "parameters")


def test_offloading_activations_leaves_the_states_where_they_are():
    assert states(Plan(offload="activations")) == states(Plan())


def test_gradients_of_autograd_stay_beside_the_buffer_only_until_they_are_sent_off_one_by_one():
    own = memory_profile(local_gradient_bytes=2)
    for zero, num_bytes in ((0, 15e9), (1, 15e9), (2, 0), (3, 0)):
        plan = Plan(data_parallel=8, zero_stage=zero)
        assert one(local_gradient_term(one_rank(plan, BILLIONS), own)).num_bytes == num_bytes


def test_buckets_exist_among_several_replicas_without_sharding():
    own = memory_profile(bucket_bytes=4)
    buckets = [
        one(bucket_term(one_rank(plan, BILLIONS), own)).num_bytes
        for plan in (Plan(), Plan(data_parallel=2), Plan(data_parallel=2, zero_stage=1))
    ]
    assert buckets == [0, 30e9, 0]


def test_one_dummy_gradient_of_each_shape_of_matrix():
    same = Weight("other", 30, 20)
    router = Weight("router", 8, 20)
    own = memory_profile(keeps_dummy_gradients=True)

    def dummies(plan: Plan, **changes: object) -> list[int]:
        rank = one_rank(plan, MATRIX, same, VECTOR, router, experts=(EXPERTS,))
        terms = state_terms(rank, ADAM, replace(own, **changes))
        return sizes(term for term in terms if term.name == "dummy gradients")

    assert dummies(Plan()) == [2 * 600]
    assert dummies(Plan(), keeps_dummy_gradients=False) == []
    assert dummies(Plan(data_parallel=2, zero_stage=2)) == []


def test_the_formula_shows_the_numbers():
    plan = Plan(data_parallel=8, expert_parallel=4, zero_stage=1)
    rank = one_rank(plan, MATRIX, experts=(EXPERTS,))
    assert one(master_term(rank)).formula == "4 bytes · 600 / 8 + 4 · 2,400 / 2"


@given(
    st.sampled_from([name for name in FRAMEWORKS if name != "pytorch"]), st.sampled_from(OPTIMIZERS),
    st.sampled_from(["fp32", "bf16", "fp16", "fp8"]), st.sampled_from([1, 2, 8]),
    st.sampled_from([llama, mixture]),
)  # fmt: skip
def test_sharding_more_never_needs_more_states(
    framework: str, optimizer: str, dtype: str, replicas: int, build
):
    training = Training(framework=framework, optimizer=optimizer, dtype=dtype)
    own = load_training_profile(training.framework).memory_of(training.dtype)
    found = []
    for zero in range(4):
        plan = Plan(data_parallel=replicas, zero_stage=zero)
        found.append(sum(sizes(state_terms(rank_of(build(), plan, optimizer=optimizer), training, own))))
    assert found == sorted(found, reverse=True)


def test_hybrid_sharding_divides_by_the_shards_alone():
    whole = Plan(data_parallel=8, zero_stage=1)
    hybrid = Plan(data_parallel=8, zero_stage=1, num_shards=2)
    halves, eighths = (one(master_term(rank_of(gpt(), plan))).num_bytes for plan in (hybrid, whole))
    assert halves == 4 * eighths
