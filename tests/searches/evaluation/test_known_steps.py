"""A search that knows steps of the same job gives the same winners as one that times every plan anew."""

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.searches.evaluation.known import Known, KnownSteps, least_seconds
from perfcast.searches.report.sensitivity import find_step_seconds, scale_network
from perfcast.searches.request import SearchRequest
from perfcast.searches.search import search_plans
from perfcast.searches.space.definition import Space

REQUEST = SearchRequest(
    model="gpt3-13b",
    clusters=("dgx-a100:32",),
    global_batch_size=64,
    training=Training(framework="megatron"),
    cost_models={"a100-sxm-80gb": "roofline"},
    num_simulated=0,
    top=3,
    space=Space(fixed={"order": "tp-cp-dp-pp", "offload": "none", "cp": 1, "sp": True}),
)
CLUSTER = load_cluster("dgx-a100:32")


@pytest.fixture(scope="module")
def base():
    return search_plans(REQUEST, CLUSTER)


@pytest.mark.parametrize("factor", [0.25, 2.0, 4.0])
def test_no_step_is_shorter_than_its_bound_and_the_winner_is_the_same(base, factor: float):
    network = scale_network(CLUSTER, factor)
    every = search_plans(REQUEST, network)
    bounds = least_seconds(base.evaluation, factor)
    places = [base.place_of(every.evaluation.plans.plan(at)) for at in range(len(every.evaluation))]
    assert (every.evaluation.step_seconds >= bounds[places] * (1 - 1e-9)).all()
    few = search_plans(REQUEST, network, known=Known((KnownSteps(base.evaluation),), network=factor))
    assert len(few.evaluation) < len(every.evaluation)
    assert few.winner == every.winner


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_on_the_same_network_every_plan_is_as_it_was(base, factor: float):
    device = replace(load_device("a100-sxm-80gb"), memory_bytes=round(factor * 80 * 2**30))
    every = search_plans(REQUEST, CLUSTER, device=device)
    known = search_plans(REQUEST, CLUSTER, device=device, known=Known((KnownSteps(base.evaluation),)))
    assert known.winner == every.winner
    np.testing.assert_allclose(known.evaluation.step_seconds, every.evaluation.step_seconds, rtol=1e-12)
    for name in ("device_bytes", "fits", "mfu"):
        np.testing.assert_allclose(
            getattr(known.evaluation, name), getattr(every.evaluation, name), rtol=1e-12
        )


@pytest.mark.parametrize("factor", [0.5, 4.0])
def test_another_batch_has_the_same_winner_and_step_of_the_old_one_from_a_few_plans(base, factor: float):
    request = replace(REQUEST, global_batch_size=int(factor * REQUEST.global_batch_size))
    every = search_plans(request, CLUSTER)
    few = search_plans(request, CLUSTER, known=Known((KnownSteps(base.evaluation),), batch=factor))
    assert len(few.evaluation) < len(every.evaluation) / 2
    assert few.winner == every.winner
    plan = base.winner.plan
    kept = replace(plan, num_micro_batches=max(1, int(factor * plan.num_micro_batches)))
    assert find_step_seconds(few, kept) == find_step_seconds(every, kept)


def test_bounds_that_a_timed_plan_breaks_leave_nothing_out(base, monkeypatch):
    monkeypatch.setattr("perfcast.searches.evaluation.known._SHORTFALL", -0.5)
    known = Known((KnownSteps(base.evaluation),), batch=2.0)
    few = search_plans(replace(REQUEST, global_batch_size=128), CLUSTER, known=known)
    assert few.winner == search_plans(replace(REQUEST, global_batch_size=128), CLUSTER).winner


def test_demands_that_count_plans_are_told_of_all_of_them(base):
    demanding = replace(REQUEST, global_batch_size=16, min_mfu=0.9)
    with pytest.raises(PlanError) as every:
        search_plans(demanding, CLUSTER)
    with pytest.raises(PlanError) as few:
        search_plans(demanding, CLUSTER, known=Known((KnownSteps(base.evaluation),), batch=0.25))
    assert str(few.value) == str(every.value)
