"""Plans and batches of inference within limits."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.errors import PlanError
from perfcast.searches.serving.batches import (
    broken_limits,
    compare_serving,
    list_serving_plans,
    search_serving,
)
from perfcast.searches.serving.batches_request import ServingSearchRequest
from small_transformers import gpt

TINY = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 32}
ONE_REPLICA = {"dp": 1, "ep": 1, "tp": 4}
CLUSTER = load_cluster("dgx-h100:4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module", autouse=True)
def few_batches():
    """Batches of up to 16."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perfcast.searches.serving.batches._LARGEST_SHARE", 16)
        yield


@pytest.fixture(scope="module")
def free(model: str, few_batches: None):
    """One plan without limits."""
    return searched(model, fixed=ONE_REPLICA)


def searched(model: str, **options):
    request = ServingSearchRequest(
        **{
            "model": model,
            "mode": "decode",
            "clusters": (CLUSTER.name,),
            "context_length": 32,
            "cost_models": {CLUSTER.device: "roofline"},
            **options,
        }
    )
    return search_serving(request, CLUSTER)


def test_every_cut_of_the_devices_is_tried_once():
    # 4 devices, 4 heads and at least 4 layers: dp · tp · pp = 4 has the 6 ordered factorings of 2 · 2.
    plans = list_serving_plans(gpt(), 4, 32, {})
    degrees = [(p.data_parallel, p.tensor_parallel, p.pipeline_parallel) for p in plans]
    assert len(plans) == len(set(degrees)) == 6
    assert {(p.zero_stage, p.sequence_parallel, p.recompute, p.offload) for p in plans} == {
        (0, 0, "none", "none")
    }


def test_the_best_keeps_all_limits_and_none_tried_within_them_is_faster(model: str, free):
    limit = 1.01 * min(choice.point.decode.seconds for choice in free.points)
    found = searched(model, max_token_seconds=limit, fixed=ONE_REPLICA)
    best = found.ranked[0]
    assert best.point.decode.seconds <= limit
    within = [c for c in found.points if not broken_limits(found.request, c.point)]
    assert best.tokens_per_second == max(c.tokens_per_second for c in within)
    assert best.tokens_per_second <= free.ranked[0].tokens_per_second


def test_plans_are_ranked_by_throughput_each_with_its_own_best_batch(model: str):
    found = searched(model, batch_size=4)
    rates = [choice.tokens_per_second for choice in found.ranked]
    assert rates == sorted(rates, reverse=True)
    assert len({choice.plan for choice in found.ranked}) == len(found.ranked) == 6


def test_a_limit_on_the_first_token_needs_the_prefill(model: str, free):
    assert free.ranked[0].point.prefill is None
    found = searched(model, max_first_seconds=1.0, batch_size=4)
    assert found.ranked[0].point.prefill.seconds <= 1.0


def test_a_stated_batch_is_the_only_one(model: str):
    found = searched(model, batch_size=2)
    assert {choice.point.batch_size for choice in found.points} == {2}
    assert all(2 % choice.plan.data_parallel == 0 for choice in found.points)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_token_seconds": 1e-9}, r"--max-tpot 1\.00 ns excludes all of 6 plans; the fastest takes"),
        ({"max_first_seconds": 1e-9}, r"--max-ttft 1\.00 ns excludes all of 6 plans; the fastest takes"),
        ({"max_memory_fraction": 1e-6}, "none of 6 plans fits the memory of .*; the smallest takes"),
        ({"batch_size": 3, "fixed": {"dp": 2}}, "--global-batch-size 3: no plan's dp divides it"),
        ({"fixed": {"tp": 3}}, "^no plan for 4 devices: tp=3 alone excludes all; .*tp could be 1, 2, 4$"),
    ],
)
def test_what_excludes_every_plan_is_named(model: str, options: dict[str, object], message: str):
    with pytest.raises(PlanError, match=message):
        searched(model, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "train"}, "inference is searched for prefill or decode"),
        ({"max_token_seconds": float("nan")}, "--max-tpot nan: must be a number of seconds above 0"),
        ({"max_first_seconds": -1.0}, "--max-ttft -1: must be"),
        ({"mode": "prefill", "max_token_seconds": 1.0}, "--max-tpot is of --mode decode"),
    ],
)
def test_requests_that_mean_nothing_are_refused(options: dict[str, object], message: str):
    with pytest.raises(PlanError, match=message):
        ServingSearchRequest(**{"model": "gpt2", "mode": "decode", "clusters": ("dgx-h100:8",), **options})


def test_clusters_are_ordered_by_rate_of_a_device_or_by_dollars(model: str):
    result = searched(model, batch_size=4)
    fast = replace(result, cluster="fast", dollars_per_device_hour=9.0)
    slow = replace(
        result, cluster="slow", dollars_per_device_hour=1.0,
        ranked=(replace(result.ranked[0], tokens_per_second=result.ranked[0].tokens_per_second / 2),),
    )  # fmt: skip
    results = {"slow": slow, "fast": fast}
    by_rate = compare_serving(list(results), results.__getitem__)
    by_dollars = compare_serving(list(results), results.__getitem__, "dollars-per-token")
    assert [r.cluster for r in by_rate.results] == ["fast", "slow"]
    assert [r.cluster for r in by_dollars.results] == ["slow", "fast"]
    # $9 an hour and device, 4 devices: 9 · 4 / 3600 dollars a second.
    assert fast.dollars_per_token(fast.ranked[0]) == pytest.approx(0.01 / fast.ranked[0].tokens_per_second)


def test_clusters_without_a_plan_are_said_or_all_refused(model: str):
    result = searched(model, batch_size=4)

    def search(name: str):
        if name == "good":
            return result
        raise PlanError(f"{name} is too small")

    assert compare_serving(["bad", "good"], search).failed == (("bad", "bad is too small"),)
    with pytest.raises(PlanError, match="no cluster has a plan; bad: bad is too small; worse: worse is"):
        compare_serving(["bad", "worse"], search)
