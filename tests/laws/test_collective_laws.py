"""What holds on every cluster of the catalog."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from made_up_clusters import pure
from perfcast.catalogs.clusters import load_cluster_entries, load_cluster_entry
from perfcast.core.collective import COLLECTIVES
from perfcast.core.machine.cluster import Cluster
from perfcast.cost.collective.choose import CHOICES, algorithms_of
from perfcast.cost.collective.datasheet import CollectiveTimes, price_collectives
from perfcast.cost.collective.table import collective_table
from perfcast.errors import UnknownNameError

NAMES = sorted(load_cluster_entries())


@st.composite
def groups(draw: st.DrawFn) -> tuple[Cluster, tuple[int, ...]]:
    entry = load_cluster_entry(draw(st.sampled_from(NAMES)))
    inner = prod(level.size or 1 for level in entry.levels)
    cluster = entry.of_size(
        inner * draw(st.integers(1, 6))
        if not entry.is_even
        else draw(st.integers(1, min(512, entry.most_devices)))
    )
    return cluster, tuple(draw(st.integers(1, level.size)) for level in cluster.levels)


def price(
    cluster: Cluster, collective: str, sizes: list[float], span: tuple[int, ...], algorithm: str = "nccl"
) -> CollectiveTimes:
    return price_collectives(cluster, collective_table(collective, sizes, [span]), algorithm)


collectives = st.sampled_from(COLLECTIVES)
sizes = st.floats(0, 1e11)


def choice_for(collective: str, choice: str) -> str:
    try:
        algorithms_of(collective, choice)
    except UnknownNameError:
        return "best"
    return choice


@settings(max_examples=cases(150, share=0.1))
@given(groups(), collectives, sizes, sizes, st.sampled_from(CHOICES))
def test_time_grows_with_bytes(
    group: tuple[Cluster, tuple[int, ...]], collective: str, one: float, other: float, choice: str
):
    cluster, span = group
    choice = choice_for(collective, choice)
    if choice == "in_network" or (choice == "nccl" and collective == "all_reduce"):
        choice = "best"  # NCCL's own model may change to what is slower; switches may not reduce at all
    small, large = price(cluster, collective, sorted([one, other]), span, choice).seconds
    assert small <= large * (1 + 1e-12)


@settings(max_examples=cases(150, share=0.1))
@given(groups(), collectives, sizes)
def test_nothing_beats_the_slowest_link(group: tuple[Cluster, tuple[int, ...]], collective: str, size: float):
    cluster, span = group
    seconds = price(cluster, collective, [size], span, "best").seconds[0]
    if prod(span) == 1 or collective == "barrier":
        return
    part = (
        (prod(span) - 1) / prod(span) if collective not in ("send", "receive", "broadcast", "reduce") else 1.0
    )
    floors, below = [], 1
    for level, members in zip(cluster.levels, span, strict=True):
        link = level.link
        rate = max((link.bytes_per_second, link.port_bytes_per_second, *link.ring_bytes_per_second))
        if members > 1 and collective in ("all_reduce", "all_gather", "reduce_scatter"):
            floors.append(size * (members - 1) / members / below / rate)
        elif members > 1:
            floors.append(0.0)
        below *= members
    innermost = max(
        max((level.link.bytes_per_second, level.link.port_bytes_per_second)) for level in cluster.levels
    )
    assert seconds >= max([*floors, size * part / innermost / len(cluster.levels)]) * (1 - 1e-12)


@settings(max_examples=cases(60, share=0.1))
@given(groups(), collectives, sizes)
def test_a_group_of_one_costs_nothing(group: tuple[Cluster, tuple[int, ...]], collective: str, size: float):
    cluster, span = group
    times = price(cluster, collective, [size], (1,) * len(span))
    assert times.seconds[0] == 0
    assert (times.algorithm(0), times.protocol(0)) == ("", "")


@settings(max_examples=cases(100, share=0.1))
@given(groups(), sizes)
def test_a_rings_all_reduce_is_its_reduce_scatter_and_all_gather(
    group: tuple[Cluster, tuple[int, ...]], size: float
):
    cluster, span = group
    whole, first, second = (
        price_collectives(cluster, collective_table(name, size, [span]), "ring", pure()).seconds[0]
        for name in ("all_reduce", "reduce_scatter", "all_gather")
    )
    assert whole == pytest.approx(first + second)


@settings(max_examples=cases(100, share=0.1))
@given(groups(), sizes)
def test_a_hierarchical_all_reduce_is_no_faster_than_its_slowest_level(
    group: tuple[Cluster, tuple[int, ...]], size: float
):
    cluster, span = group
    whole = price(cluster, "all_reduce", [size], span, "hierarchical").seconds[0]
    below = 1
    for index, members in enumerate(span):
        one = tuple(members if place == index else 1 for place in range(len(span)))
        mine = price_collectives(
            cluster, collective_table("all_reduce", size / below, [one]), "hierarchical", pure()
        )
        assert whole >= mine.seconds[0] * (1 - 1e-9)
        below *= members


@settings(max_examples=cases(60, share=0.1))
@given(groups(), collectives, sizes)
def test_the_best_is_no_slower_than_what_the_library_takes(
    group: tuple[Cluster, tuple[int, ...]], collective: str, size: float
):
    cluster, span = group
    best, library = (price(cluster, collective, [size], span, name).seconds[0] for name in ("best", "nccl"))
    assert best <= library * (1 + 1e-12)


def test_many_calls_at_once_are_priced_like_each_alone():
    cluster = load_cluster_entry("dgx-superpod-h100").of_size(2048)
    draw = np.random.default_rng(0)
    count = 300
    codes, message = draw.integers(0, len(COLLECTIVES), count), 2.0 ** draw.uniform(0, 33, count)
    spans = np.stack([2 ** draw.integers(0, top, count) for top in (4, 6, 4)], axis=1)
    more = {
        "reducible": draw.random(count) < 0.5,
        "concurrent_groups": draw.integers(1, 9, count),
        "sharing": draw.integers(1, 3, count),
    }
    together = price_collectives(cluster, collective_table(codes, message, spans, **more))
    for i in range(count):
        one = collective_table(
            codes[i : i + 1], message[i], spans[i : i + 1], **{k: v[i] for k, v in more.items()}
        )
        alone = price_collectives(cluster, one)
        assert alone.seconds[0] == pytest.approx(together.seconds[i], rel=1e-12)
        assert (alone.algorithm(0), alone.protocol(0)) == (together.algorithm(i), together.protocol(i))


def test_the_interval_holds_the_forecast():
    cluster = load_cluster_entry("dgx-h100").of_size(64)
    times = price(cluster, "all_reduce", [1e3, 1e6, 1e9], (8, 8))
    assert (times.low < times.seconds).all()
    assert (times.seconds < times.high).all()
    assert (times.latency_seconds <= times.seconds).all()
