"""Collectives of every cluster of the catalog, priced by the thousand."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laws.drawn import ROWS, Floats, arrays, grown, seeds
from perfcast.catalogs.clusters import load_cluster_entries, load_cluster_entry
from perfcast.core.collective import COLLECTIVES
from perfcast.core.machine.cluster import Cluster, Level
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.table import CollectiveTable, collective_table

NAMES = sorted(load_cluster_entries())
collectives = st.sampled_from(COLLECTIVES)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    entry = load_cluster_entry(draw(st.sampled_from(NAMES)))
    inner = prod(level.size or 1 for level in entry.levels)
    if entry.is_even:
        return entry.of_size(draw(st.integers(1, min(512, entry.most_devices))))
    return entry.of_size(inner * draw(st.integers(1, 8)))


def spans_of(draw: np.random.Generator, cluster: Cluster) -> np.ndarray:
    return np.stack([draw.integers(1, level.size + 1, ROWS) for level in cluster.levels], axis=1)


def bytes_of(draw: np.random.Generator, low: float = 0, high: float = 36) -> Floats:
    return 2.0 ** draw.uniform(low, high, ROWS)


def price(cluster: Cluster, table: CollectiveTable, algorithm: str = "best") -> Floats:
    times = price_collectives(cluster, table, algorithm)
    assert (times.low <= times.seconds).all()
    assert (times.seconds <= times.high).all()
    assert (times.latency_seconds <= times.seconds * (1 + 1e-12)).all()
    return times.seconds


def with_links(cluster: Cluster, **changes: float) -> Cluster:
    """Every link's figures times a factor."""

    def changed(level: Level) -> Level:
        link = level.link
        values = {name: getattr(link, name) * factor for name, factor in changes.items()}
        if "bytes_per_second" in changes:
            factor = changes["bytes_per_second"]
            values["port_bytes_per_second"] = link.port_bytes_per_second * factor
            values["ring_bytes_per_second"] = tuple(rate * factor for rate in link.ring_bytes_per_second)
        return replace(level, link=replace(link, **values))

    return replace(cluster, levels=tuple(changed(level) for level in cluster.levels))


@arrays(20, share=0.3)
@given(clusters(), collectives, seeds)
def test_more_bytes_never_take_less(cluster: Cluster, collective: str, seed: int):
    draw = np.random.default_rng(seed)
    spans, sizes = spans_of(draw, cluster), bytes_of(draw)
    few, many = (
        price(cluster, collective_table(collective, each, spans)) for each in (sizes, grown(draw, sizes))
    )
    assert (many >= few * (1 - 1e-12)).all()


@arrays(20, share=0.3)
@given(clusters(), collectives, seeds, st.floats(1, 8), st.floats(0, 1))
def test_faster_links_are_never_slower(
    cluster: Cluster, collective: str, seed: int, rate: float, latency: float
):
    draw = np.random.default_rng(seed)
    table = collective_table(collective, bytes_of(draw), spans_of(draw, cluster))
    faster = with_links(cluster, bytes_per_second=rate, latency_seconds=latency)
    for algorithm in ("best", "nccl") if collective != "all_reduce" else ("best",):
        slow, fast = (price(one, table, algorithm) for one in (cluster, faster))
        assert (fast <= slow * (1 + 1e-12)).all()


@arrays(20, share=0.3)
@given(clusters(), collectives, seeds, st.floats(1, 8))
def test_oversubscription_and_neighbours_never_help(
    cluster: Cluster, collective: str, seed: int, ratio: float
):
    draw = np.random.default_rng(seed)
    spans, sizes = spans_of(draw, cluster), bytes_of(draw)
    groups = np.round(2.0 ** draw.uniform(0, 6, ROWS))
    free = price(cluster, collective_table(collective, sizes, spans, concurrent_groups=groups))
    narrow = with_links(cluster, oversubscription=ratio)
    assert (
        price(narrow, collective_table(collective, sizes, spans, concurrent_groups=groups))
        >= free * (1 - 1e-12)
    ).all()
    more = collective_table(collective, sizes, spans, concurrent_groups=grown(draw, groups))
    assert (price(cluster, more) >= free * (1 - 1e-12)).all()
    shared = collective_table(
        collective, sizes, spans, concurrent_groups=groups, sharing=1 + draw.random(ROWS)
    )
    assert (price(cluster, shared) >= free * (1 - 1e-12)).all()


@arrays(10, share=0.2)
@given(clusters(), seeds)
def test_long_all_reduces_are_their_reduce_scatters_and_all_gathers(cluster: Cluster, seed: int):
    """What sets them apart is the part of 1 / n that each rank copies to itself, twice in two calls."""
    draw = np.random.default_rng(seed)
    spans, sizes = spans_of(draw, cluster), bytes_of(draw, 32, 38)
    members = np.maximum(spans.prod(axis=1), 2)
    for algorithm in ("ring", "best"):
        whole, half, other = (
            price(cluster, collective_table(name, sizes, spans), algorithm)
            for name in ("all_reduce", "reduce_scatter", "all_gather")
        )
        assert (whole <= (half + other) * (1 + 1e-9)).all()
        if algorithm == "ring":
            assert (whole >= (half + other) * (0.995 - 0.23 / (members - 1)) - 1e-3).all()


@arrays(10, share=0.2)
@given(clusters(), collectives, seeds)
def test_more_choice_never_makes_a_collective_slower(cluster: Cluster, collective: str, seed: int):
    draw = np.random.default_rng(seed)
    table = collective_table(collective, bytes_of(draw), spans_of(draw, cluster))
    assert (price(cluster, table) <= price(cluster, table, "nccl") * (1 + 1e-12)).all()
    order = draw.permutation(ROWS)
    assert price(cluster, table.take(order)).tolist() == price(cluster, table)[order].tolist()
