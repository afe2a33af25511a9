"""Conditions that are varied, and what becomes of the winner under them."""

from dataclasses import replace

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.plan import Plan
from perfcast.errors import PlanError
from perfcast.searches.report.sensitivity import (
    BANDWIDTH,
    BATCH,
    MEMORY,
    Condition,
    describe_network,
    find_sensitivity,
    find_step_seconds,
    list_conditions,
    scale_network,
)
from perfcast.searches.result import SearchResult
from perfcast.units import MILLI
from search_reports import MILLISECONDS, PLANS, ranked_plan, search_result

BASE = Condition("as it is", 1.0, load_cluster("dgx-h100:64"), load_device("h100-sxm"), 16)


def of(name: str, factor: float) -> Condition:
    return next(c for c in list_conditions(BASE) if (c.name, c.factor) == (name, factor))


def test_links_between_servers_are_scaled_and_those_inside_stay():
    cluster = load_cluster("dgx-h100:64")
    scaled = scale_network(cluster, 4.0)
    assert scaled.levels[0] == cluster.levels[0]
    for before, after in zip(cluster.levels[1:], scaled.levels[1:], strict=True):
        assert after.size == before.size
        if before.size > 1:
            assert after.link.bytes_per_second == 4 * before.link.bytes_per_second
            assert after.link.latency_seconds == before.link.latency_seconds


def test_a_cluster_of_one_server_varies_the_links_inside():
    cluster = load_cluster("dgx-h100:8")
    scaled = scale_network(cluster, 0.5)
    assert scaled.levels[0].link.bytes_per_second == 0.5 * cluster.levels[0].link.bytes_per_second
    assert describe_network(cluster) == cluster.levels[0].name


def test_each_condition_changes_one_thing():
    for condition in list_conditions(BASE):
        changed = [
            condition.cluster != BASE.cluster,
            condition.device != BASE.device,
            condition.global_batch_size != BASE.global_batch_size,
        ]
        assert sum(changed) == 1
    assert of(MEMORY, 0.5).device.memory_bytes == BASE.device.memory_bytes / 2
    assert of(BATCH, 0.25).global_batch_size == 4


def test_batches_that_are_no_whole_number_are_left_out():
    conditions = list_conditions(replace(BASE, global_batch_size=6))
    assert [c.factor for c in conditions if c.name == BATCH] == [0.5, 2, 4]


def test_one_device_has_no_network_to_vary():
    conditions = list_conditions(replace(BASE, cluster=load_cluster("dgx-h100:1")))
    assert all(condition.name != BANDWIDTH for condition in conditions)


def test_the_step_of_a_plan_is_found_among_the_valid_ones():
    result = search_result()
    for plan, milliseconds in zip(PLANS, MILLISECONDS, strict=True):
        assert find_step_seconds(result, plan) == milliseconds * MILLI
    assert find_step_seconds(result, Plan(data_parallel=8, num_micro_batches=2)) is None
    assert find_step_seconds(result, None) is None


def test_a_winner_that_is_kept_lost_or_impossible_is_told_apart():
    # With less network the second plan wins in 9 ms, and the first takes 10: it costs 11.1 % to keep.
    def search(condition: Condition) -> SearchResult:
        if condition.name == BANDWIDTH and condition.factor < 1:
            return search_result(ranked=(replace(ranked_plan(1), step_seconds=9 * MILLI),))
        if condition.name == MEMORY and condition.factor < 1:
            raise PlanError("no plan is left")
        if condition.name == BATCH:
            return search_result()  # its plans are of another batch
        return search_result()

    told: list[str] = []
    found = find_sensitivity(BASE, search, lambda condition: told.append(condition.name))
    points = {(p.condition.name, p.condition.factor): p for p in found.points}
    lost = points[BANDWIDTH, 0.25]
    assert lost.loss == pytest.approx(10 / 9 - 1)
    assert "pp=1 → pp=2" in lost.changes
    assert not any(change.startswith("micro-batches") for change in lost.changes)
    assert points[BANDWIDTH, 4.0].loss == 0
    assert points[BANDWIDTH, 4.0].changes == ()
    assert points[MEMORY, 0.5].reason == "no plan is left"
    assert points[BATCH, 2.0].kept_seconds is None  # 32 sequences are 8 micro-batches, which no plan has
    assert told == ["as it is", *(p.condition.name for p in found.points)]


def test_a_batch_that_the_winner_does_not_divide_cannot_keep_it():
    # The winner's replicas are 4: a batch of 6 · 0.5 = 3 sequences does not divide.
    base = replace(BASE, global_batch_size=6)
    found = find_sensitivity(base, lambda condition: search_result())
    half = next(p for p in found.points if (p.condition.name, p.condition.factor) == (BATCH, 0.5))
    assert half.kept_seconds is None
    assert half.loss is None


def test_no_plan_as_it_is_is_an_error():
    def search(condition: Condition) -> SearchResult:
        raise PlanError("no plan is left")

    with pytest.raises(PlanError, match="no plan is left"):
        find_sensitivity(BASE, search)
