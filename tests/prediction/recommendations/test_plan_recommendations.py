from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from builders import made_up_device
from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.recommendations.plans import find_plan_recommendations
from perfcast.prediction.step.predict import predict_plan
from perfcast.units import MIB
from small_transformers import gpt

TRAINING = Training(framework="megatron")
LITTLE = gpt()
PLAN = Plan(data_parallel=4, micro_batch_size=4, num_micro_batches=2)
S = 256
SERVER = Cluster("server", "four devices", "made-up", (Level("node", 4, Link("nvlink4", 1e-6, 1e11)),))


@cache
def recommendations(
    capacity_mib: int, plan: Plan = PLAN, training: Training = TRAINING, model: Transformer = LITTLE
) -> tuple[PlanRecommendation, ...]:
    return timed_recommendations(capacity_mib, plan, training, model)[1]


def timed_recommendations(
    capacity_mib: int,
    plan: Plan = PLAN,
    training: Training = TRAINING,
    model: Transformer = LITTLE,
    cluster: Cluster | None = SERVER,
) -> tuple[float | None, tuple[PlanRecommendation, ...]]:
    device = made_up_device(memory_bytes=capacity_mib * MIB)
    return find_plan_recommendations(model, plan, training, S, device, cluster=cluster, cost_model=Roofline())


def alone(**asked: Any) -> set[str]:
    """Changes that lower the need by themselves; nothing fits."""
    return {
        recommendation.changes[0]
        for recommendation in recommendations(10, **asked)
        if len(recommendation.changes) == 1
    }


def need_mib(plan: Plan = PLAN) -> int:
    """Of a device that has no memory; workspaces and context follow from its kind."""
    return estimate_footprint(gpt(), plan, TRAINING, S, device=made_up_device()).device_bytes // MIB


@pytest.mark.parametrize("capacity_mib", [10, 500, 100_000])
def test_devices_and_batch_stay_as_they_are(capacity_mib: int):
    for recommendation in recommendations(capacity_mib):
        assert recommendation.plan.world_size == PLAN.world_size
        assert recommendation.plan.global_batch_size == PLAN.global_batch_size


@pytest.mark.parametrize("capacity_mib", [10, 500, 100_000])
def test_each_says_truly_what_it_needs_and_whether_that_fits(capacity_mib: int):
    device = made_up_device(memory_bytes=capacity_mib * MIB)
    for recommendation in recommendations(capacity_mib):
        footprint = estimate_footprint(gpt(), recommendation.plan, TRAINING, S, device=device)
        assert recommendation.device_bytes == footprint.device_bytes
        assert recommendation.fits is (recommendation.device_bytes <= device.memory_bytes)
        assert 1 <= len(recommendation.changes) <= 3


def test_every_recommendation_lowers_what_is_needed():
    before = estimate_footprint(gpt(), PLAN, TRAINING, S, device=made_up_device()).device_bytes
    assert all(recommendation.device_bytes < before for recommendation in recommendations(10))


def test_what_fits_comes_first_and_cheaper_before_dearer():
    found = recommendations(need_mib() - 1)
    singles = [r for r in found if len(r.changes) == 1]
    assert list(found[: len(singles)]) == singles
    assert [(not r.fits, r.extra_seconds) for r in singles] == sorted(
        (not r.fits, r.extra_seconds) for r in singles
    )
    costs = [r.extra_seconds for r in found[len(singles) :]]
    assert costs == sorted(costs)


def test_combinations_are_offered_only_where_they_fit():
    assert all(
        recommendation.fits
        for recommendation in recommendations(need_mib() - 20)
        if len(recommendation.changes) > 1
    )
    assert all(len(recommendation.changes) == 1 for recommendation in recommendations(10))


def test_every_lever_that_helps_is_tried_alone():
    """Two tensor-parallel ranks of so small a model save less than their communicator takes, four more."""
    assert alone() == {
        "recompute=full",
        "zero=1",
        "micro-batch size 2",
        "micro-batch size 1",
        "offload=optimizer",
        "tp=4, sp=1",
    }


def test_tensor_parallelism_comes_with_sequence_parallelism():
    found = recommendations(10, model=gpt(hidden=1024))
    wider = {
        recommendation.changes: recommendation.plan
        for recommendation in found
        if recommendation.changes[0].startswith("tp=")
    }
    assert [changes for changes in wider if len(changes) == 1] == [("tp=2, sp=1",), ("tp=4, sp=1",)]
    assert all(plan.sequence_parallel for plan in wider.values())


@pytest.mark.parametrize(
    ("framework", "stages"),
    [("pytorch", {1, 3}), ("fsdp", {3}), ("megatron", {1}), ("nanotron", {1}), ("deepspeed", {1, 2, 3})],
)
def test_only_what_a_framework_shards_is_offered(framework: str, stages: set[int]):
    changes = alone(training=Training(framework=framework))
    offered = {
        int(change.split()[0].removeprefix("zero=")) for change in changes if change.startswith("zero=")
    }
    assert offered == stages


def test_what_plain_pytorch_cannot_do_is_offered_with_who_can():
    changes = alone(training=Training(framework="pytorch"))
    own = {"recompute=full", "zero=1", "micro-batch size 2", "micro-batch size 1"}
    assert own <= changes
    assert {change.rpartition(" ")[2] for change in changes - own} <= {"(fsdp)", "(megatron)", "(deepspeed)"}
    assert "zero=3 (fsdp)" in changes


def test_selective_recomputation_is_offered_where_scores_are_kept():
    assert "recompute=selective" not in alone()
    assert "recompute=selective" in alone(training=replace(TRAINING, attention="math"))


def test_a_plan_that_uses_every_lever_has_no_recommendation_left():
    plan = Plan(recompute="full", offload="optimizer")
    assert recommendations(10, plan) == ()


def test_reasons_name_what_moved_most_first():
    found = recommendations(10, model=gpt(hidden=4096))
    full = next(recommendation for recommendation in found if recommendation.changes == ("recompute=full",))
    assert full.extra_seconds > 0
    assert full.reasons[0].startswith("recompute +")


def test_a_device_without_a_cluster_has_recommendations_without_a_time():
    step, found = timed_recommendations(10, cluster=None)
    assert step is None
    assert {recommendation.changes for recommendation in found} == {
        recommendation.changes for recommendation in recommendations(10)
    }
    assert all(
        recommendation.extra_seconds is None and not recommendation.reasons for recommendation in found
    )


def test_extra_seconds_are_those_of_the_closed_form_of_either_plan():
    plan = replace(PLAN, bucket_bytes=1000)
    cluster, device = load_cluster("dgx-h100:4"), load_device("h100-sxm")

    def seconds(one: Plan) -> float:
        return predict_plan(
            LITTLE,
            cluster,
            one,
            training=TRAINING,
            sequence_length=S,
            cost_model=Roofline(),
            method="closed_form",
            recommendations=False,
            memory=False,
        ).step_seconds

    step, found = find_plan_recommendations(
        LITTLE, plan, TRAINING, S, device, cluster=cluster, cost_model=Roofline()
    )
    assert step == pytest.approx(seconds(plan), rel=1e-9)
    for recommendation in found:
        assert recommendation.extra_seconds == pytest.approx(
            seconds(recommendation.plan) - seconds(plan), abs=1e-9 * step
        )
