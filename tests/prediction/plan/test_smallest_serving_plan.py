"""The smallest plan that holds what is served."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plan import Plan
from perfcast.errors import PlanError
from perfcast.prediction.plan.smallest import least_cuts
from perfcast.prediction.plan.smallest_serving import (
    RULE,
    RULE_OF_SMALLEST,
    choose_smallest_serving_plan,
)
from perfcast.prediction.request.batches import BatchesRequest
from perfcast.prediction.sweep.batches import on_fewest_devices, sweep_batches
from perfcast.searches.serving.batches import search_serving
from perfcast.searches.serving.batches_request import ServingSearchRequest
from small_transformers import llama, mixture


def chosen(capacity: int, num_devices: int = 8) -> tuple[Plan, str]:
    """Of a model of which a plan holds 80 bytes over tp · pp, and 20 more with the largest batch."""

    def needs(plan: Plan) -> tuple[int, int]:
        weights = 80 // (plan.tensor_parallel * plan.pipeline_parallel)
        return weights + 20, weights

    return choose_smallest_serving_plan(llama(), num_devices, 4, capacity, needs)


@pytest.mark.parametrize(
    ("capacity", "cuts", "rule"),
    [(100, (1, 1), RULE), (60, (2, 1), RULE), (40, (4, 1), RULE), (30, (4, 2), RULE),
     (25, (4, 1), RULE_OF_SMALLEST)],
)  # fmt: skip
def test_the_first_that_holds_every_batch_is_taken_then_the_first_that_holds_the_smallest(
    capacity, cuts, rule
):
    plan, said = chosen(capacity)
    assert ((plan.tensor_parallel, plan.pipeline_parallel), said) == (cuts, rule)
    assert plan.world_size == 8


def test_no_plan_that_fits_says_how_far_the_least_is_off():
    with pytest.raises(PlanError, match=r"no plan fits 8 devices: the least takes 2\.00 times"):
        chosen(5)


def test_candidates_fill_the_devices_and_spread_experts_least_first():
    plans = list(least_cuts(mixture(), 4, 2))
    assert all(plan.world_size == 4 for plan in plans)
    cuts = [plan.tensor_parallel * plan.pipeline_parallel for plan in plans]
    assert cuts == sorted(cuts)
    first = [
        plan.expert_parallel for plan in plans if cuts[0] == plan.tensor_parallel * plan.pipeline_parallel
    ]
    assert first == sorted(first)


def swept(model: str, devices: int, **asked: object) -> BatchesRequest:
    cluster = load_cluster(f"dgx-h100:{devices}")
    return BatchesRequest(
        **{"model": model, "cluster": cluster, "context_lengths": (2048,), "cost_model": "roofline", **asked}
    )


def test_a_model_that_one_device_cannot_hold_is_cut():
    found = sweep_batches(swept("llama3-70b", 8, batch_sizes=(8,)))
    assert (found.plan.tensor_parallel, found.plan.data_parallel) == (2, 4)
    assert all(point.fits for point in found.points)
    assert RULE in found.assumptions


def test_the_fewest_devices_hold_all_batches():
    found = on_fewest_devices(
        swept("llama3-70b", 8, batch_sizes=(1, 64)), lambda count: load_cluster(f"dgx-h100:{count}")
    )
    assert found.cluster.num_devices == 4  # two hold a sequence, not sixty-four


@pytest.mark.parametrize(
    ("model", "fixed", "plan"),
    [
        ("llama3-8b", {"dp": 8}, Plan(data_parallel=8)),
        ("llama3-8b", {"pp": 4, "tp": 2}, Plan(pipeline_parallel=4, tensor_parallel=2)),
        ("mixtral-8x7b", {"tp": 8, "ep": 1, "etp": 8}, Plan(tensor_parallel=8)),
        ("llama3-70b", {"tp": 8}, Plan(tensor_parallel=8)),
    ],
)
def test_what_a_sweep_holds_a_search_holds_too(model, fixed, plan):
    ((_, largest),) = sweep_batches(swept(model, 8, plan=plan, batch_sizes=(8,))).largest_batches
    cluster = load_cluster("dgx-h100:8")
    asked = ServingSearchRequest(
        model=model, mode="decode", clusters=("dgx-h100:8",), context_length=2048, fixed=fixed,
        batch_size=largest, cost_models={cluster.device: "roofline"},
    )  # fmt: skip
    (choice,) = search_serving(asked, cluster).ranked
    again = sweep_batches(swept(model, 8, plan=plan, batch_sizes=(largest,))).points[0]
    assert choice.point.memory_bytes == again.memory_bytes
    assert choice.point.decode.seconds == again.decode.seconds
    with pytest.raises(PlanError, match="fits the memory"):
        search_serving(replace(asked, batch_size=largest + 8), cluster)
