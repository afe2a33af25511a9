"""A search that knows steps of the same job gives the same winners as one that times every plan anew."""

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.training import Training
from perfcast.searches.evaluation.known import Known, least_seconds
from perfcast.searches.report.sensitivity import scale_network
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
    few = search_plans(REQUEST, network, known=Known(base.evaluation, factor))
    assert len(few.evaluation) < len(every.evaluation)
    assert few.winner == every.winner


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_on_the_same_network_every_plan_is_as_it_was(base, factor: float):
    device = replace(load_device("a100-sxm-80gb"), memory_bytes=round(factor * 80 * 2**30))
    every = search_plans(REQUEST, CLUSTER, device=device)
    known = search_plans(REQUEST, CLUSTER, device=device, known=Known(base.evaluation))
    assert known.winner == every.winner
    np.testing.assert_allclose(known.evaluation.step_seconds, every.evaluation.step_seconds, rtol=1e-12)
    for name in ("device_bytes", "fits", "mfu"):
        np.testing.assert_allclose(
            getattr(known.evaluation, name), getattr(every.evaluation, name), rtol=1e-12
        )
