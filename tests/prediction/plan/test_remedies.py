from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from builders import made_up_device
from perfcast.catalog.clusters import load_cluster
from perfcast.catalog.devices import load_device
from perfcast.core.cluster import Cluster, Level, Link
from perfcast.core.forecast.footprint import Remedy
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.cost.roofline import Roofline
from perfcast.memory.footprint import estimate_footprint
from perfcast.prediction.plan.remedies import find_remedies
from perfcast.prediction.step.predict import predict_plan
from perfcast.units import MIB
from small_transformers import gpt

TRAINING = Training(framework="megatron")
LITTLE = gpt()
PLAN = Plan(data_parallel=4, micro_batch_size=4, num_micro_batches=2)
S = 256
SERVER = Cluster("server", "four devices", "made-up", (Level("node", 4, Link("nvlink4", 1e-6, 1e11)),))


@cache
def remedies(
    capacity_mib: int, plan: Plan = PLAN, training: Training = TRAINING, model: Transformer = LITTLE
) -> tuple[Remedy, ...]:
    return timed_remedies(capacity_mib, plan, training, model)[1]


def timed_remedies(
    capacity_mib: int,
    plan: Plan = PLAN,
    training: Training = TRAINING,
    model: Transformer = LITTLE,
    cluster: Cluster | None = SERVER,
) -> tuple[float | None, tuple[Remedy, ...]]:
    device = made_up_device(memory_bytes=capacity_mib * MIB)
    return find_remedies(model, plan, training, S, device, cluster=cluster, cost_model=Roofline())


def alone(**asked: Any) -> set[str]:
    """Changes that lower the need by themselves; nothing fits."""
    return {remedy.changes[0] for remedy in remedies(10, **asked) if len(remedy.changes) == 1}


def need_mib(plan: Plan = PLAN) -> int:
    """Of a device that has no memory; workspaces and context follow from its kind."""
    return estimate_footprint(gpt(), plan, TRAINING, S, device=made_up_device()).device_bytes // MIB


@pytest.mark.parametrize("capacity_mib", [10, 500, 100_000])
def test_devices_and_batch_stay_as_they_are(capacity_mib: int):
    for remedy in remedies(capacity_mib):
        assert remedy.plan.world_size == PLAN.world_size
        assert remedy.plan.global_batch_size == PLAN.global_batch_size


@pytest.mark.parametrize("capacity_mib", [10, 500, 100_000])
def test_each_says_truly_what_it_needs_and_whether_that_fits(capacity_mib: int):
    device = made_up_device(memory_bytes=capacity_mib * MIB)
    for remedy in remedies(capacity_mib):
        footprint = estimate_footprint(gpt(), remedy.plan, TRAINING, S, device=device)
        assert remedy.device_bytes == footprint.device_bytes
        assert remedy.fits is (remedy.device_bytes <= device.memory_bytes)
        assert 1 <= len(remedy.changes) <= 3


def test_every_remedy_lowers_what_is_needed():
    before = estimate_footprint(gpt(), PLAN, TRAINING, S, device=made_up_device()).device_bytes
    assert all(remedy.device_bytes < before for remedy in remedies(10))


def test_what_fits_comes_first_and_cheaper_before_dearer():
    found = remedies(need_mib() - 1)
    singles = [r for r in found if len(r.changes) == 1]
    assert list(found[: len(singles)]) == singles
    assert [(not r.fits, r.extra_seconds) for r in singles] == sorted(
        (not r.fits, r.extra_seconds) for r in singles
    )
    costs = [r.extra_seconds for r in found[len(singles) :]]
    assert costs == sorted(costs)


def test_combinations_are_offered_only_where_they_fit():
    assert all(remedy.fits for remedy in remedies(need_mib() - 20) if len(remedy.changes) > 1)
    assert all(len(remedy.changes) == 1 for remedy in remedies(10))


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
    found = remedies(10, model=gpt(hidden=1024))
    wider = {remedy.changes: remedy.plan for remedy in found if remedy.changes[0].startswith("tp=")}
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


def test_a_plan_that_uses_every_lever_has_no_remedy_left():
    plan = Plan(recompute="full", offload="optimizer")
    assert remedies(10, plan) == ()


def test_reasons_name_what_moved_most_first():
    found = remedies(10, model=gpt(hidden=4096))
    full = next(remedy for remedy in found if remedy.changes == ("recompute=full",))
    assert full.extra_seconds > 0
    assert full.reasons[0].startswith("recompute +")


def test_a_device_without_a_cluster_has_remedies_without_a_time():
    step, found = timed_remedies(10, cluster=None)
    assert step is None
    assert {remedy.changes for remedy in found} == {remedy.changes for remedy in remedies(10)}
    assert all(remedy.extra_seconds is None and not remedy.reasons for remedy in found)


def test_extra_seconds_are_those_of_the_closed_form_of_either_plan():
    plan = replace(PLAN, bucket_bytes=1000, num_prefetched=2)
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
            reliefs=False,
            memory=False,
        ).step_seconds

    step, found = find_remedies(LITTLE, plan, TRAINING, S, device, cluster=cluster, cost_model=Roofline())
    assert step == pytest.approx(seconds(plan), rel=1e-9)
    for remedy in found:
        assert remedy.extra_seconds == pytest.approx(seconds(remedy.plan) - seconds(plan), abs=1e-9 * step)
