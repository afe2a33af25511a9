"""What holds for any network and any flows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.errors import PlanError
from perfcast.simulate.network import engine
from perfcast.simulate.network.arrays import Incidence, ints
from perfcast.simulate.network.build import build_topology
from perfcast.simulate.network.collectives import Group, collective_flows
from perfcast.simulate.network.fabrics.dragonfly import Dragonfly
from perfcast.simulate.network.fabrics.fat_tree import FatTree
from perfcast.simulate.network.fabrics.rail_optimised import RailOptimised
from perfcast.simulate.network.fabrics.torus import Torus
from perfcast.simulate.network.fair_share import Shares, fair_rates
from perfcast.simulate.network.flows import FlowSet, make_flows, together
from perfcast.simulate.network.routing.routes import Routes, route_flows
from perfcast.simulate.network.simulate import simulate_flows, simulate_groups
from perfcast.simulate.network.symmetry import fold
from perfcast.simulate.network.topology import Topology, fail
from simulate.network.small_networks import flat, nodes

NETWORKS = (
    build_topology(flat(16)),
    build_topology(flat(16), FatTree(4, (3.0,), 0.01)),
    fail(build_topology(flat(16), FatTree(8, (2.0,))), links=[("leaf 1", "spine 0")]),
    build_topology(nodes(4, size=4, inner_rate=150.0), RailOptimised(4)),
    build_topology(nodes(4, size=4, is_duplex=False), FatTree(8)),
    build_topology(flat(16), Dragonfly(1, 2, 4, 0.01, 0.02)),
    build_topology(flat(16), Torus((4, 2, 2))),
)
networks = st.sampled_from(NETWORKS)
policies = st.sampled_from(("even", "hash"))


@st.composite
def flow_sets(draw: st.DrawFn, most: int = 14, waits: bool = True) -> FlowSet:
    """A few flows of a few sizes between 16 devices; some wait for earlier ones."""
    count = draw(st.integers(1, most))
    source = ints(draw(st.lists(st.integers(0, 15), min_size=count, max_size=count)))
    step = ints(draw(st.lists(st.integers(1, 15), min_size=count, max_size=count)))
    sizes = draw(st.lists(st.sampled_from((0.0, 10.0, 100.0, 333.0)), min_size=count, max_size=count))
    messages = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    starts = draw(st.lists(st.sampled_from((0.0, 0.0, 0.7)), min_size=count, max_size=count))
    links = st.tuples(
        st.integers(0, count - 1), st.integers(0, count - 1), st.sampled_from((0, 1, 2, -1, -9))
    )
    chosen = [w for w in draw(st.lists(links, max_size=6)) if waits and w[1] < w[0]]
    columns = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    return make_flows(source, (source + step) % 16, sizes, messages, starts, waits=tuple(columns))


def on_links(routes: Routes) -> np.ndarray:
    """Share of each flow on each link, shape (flows, links)."""

    def table(incidence: Incidence) -> np.ndarray:
        dense = np.zeros((incidence.num_rows, incidence.num_columns))
        np.add.at(dense, (incidence.rows, incidence.columns), incidence.weights)
        return dense

    return table(routes.segments) @ table(routes.links)


def alone(topology: Topology, routes: Routes) -> np.ndarray:
    """Rate of each flow that has the network for itself."""
    shares = on_links(routes)
    lone = np.full(shares.shape, np.inf)
    np.divide(topology.bytes_per_second[None, :], shares, out=lone, where=shares > 0)
    return lone.min(axis=1)


def routed(topology: Topology, flows: FlowSet, policy: str) -> Routes:
    return route_flows(topology, flows.source, flows.destination, flows.flow_bytes, policy)


@given(networks, flow_sets(waits=False), policies)
@settings(max_examples=cases(60, share=0.02), deadline=None)
def test_rates_are_max_min_fair(topology: Topology, flows: FlowSet, policy: str):
    routes = routed(topology, flows, policy)
    kinds = fold(flows, routes, topology.bytes_per_second, 512)
    rates = fair_rates(kinds.shares, np.ones(kinds.num_kinds, bool))[kinds.flow_kind]
    shares, capacity = on_links(routes), topology.bytes_per_second
    load = rates @ shares
    assert (load <= capacity * (1 + 1e-6)).all(), "no link carries more than it can"
    is_full = load >= capacity * (1 - 1e-6)
    for flow in range(flows.num_flows):
        passes = shares > 0
        fastest = [rates[passes[:, link]].max() for link in np.flatnonzero(passes[flow] & is_full)]
        assert fastest, "every flow has a bottleneck"
        assert rates[flow] >= min(fastest) * (1 - 1e-6), "on which none is faster"


@given(networks, flow_sets(waits=False), policies)
@settings(max_examples=cases(40, share=0.02), deadline=None)
def test_folding_equal_flows_changes_no_rate(topology: Topology, flows: FlowSet, policy: str):
    routes = routed(topology, flows, policy)
    kinds = fold(flows, routes, topology.bytes_per_second, 512)
    folded = fair_rates(kinds.shares, np.ones(kinds.num_kinds, bool))[kinds.flow_kind]
    rows, columns = np.nonzero(on_links(routes))
    weights = on_links(routes)[rows, columns]
    each = Shares(columns, rows, weights, topology.bytes_per_second, flows.num_flows)
    assert folded == pytest.approx(fair_rates(each, np.ones(flows.num_flows, bool)), rel=1e-6)


@given(networks, flow_sets(), policies)
@settings(max_examples=cases(60, share=0.02), deadline=None)
def test_nothing_is_faster_than_its_links(topology: Topology, flows: FlowSet, policy: str):
    result = simulate_flows(topology, flows, policy)
    routes = routed(topology, flows, policy)
    shares = on_links(routes)
    carried = flows.flow_bytes @ shares
    assert result.link_bytes == pytest.approx(carried)
    busiest = float((carried / topology.bytes_per_second).max())
    assert result.makespan_seconds >= busiest * (1 - 1e-9)
    assert (result.link_utilisation <= 1 + 1e-9).all()
    least = flows.start_seconds + flows.flow_bytes / alone(topology, routes) + routes.latency_seconds
    assert (result.finish_seconds >= least * (1 - 1e-9)).all()


@given(networks, flow_sets(), policies)
@settings(max_examples=cases(30, share=0.02), deadline=None)
def test_the_same_flows_take_the_same_time_to_the_bit(topology: Topology, flows: FlowSet, policy: str):
    first, second = (simulate_flows(topology, flows, policy).finish_seconds for _ in range(2))
    assert (first == second).all()


@given(networks, flow_sets(), flow_sets(most=4))
@settings(max_examples=cases(30, share=0.02), deadline=None)
def test_the_order_of_flows_does_not_matter(topology: Topology, first: FlowSet, second: FlowSet):
    forth = simulate_flows(topology, together([first, second])).finish_seconds
    back = simulate_flows(topology, together([second, first])).finish_seconds
    assert np.roll(back, first.num_flows) == pytest.approx(forth, rel=1e-6)


@given(st.integers(1, 15), st.integers(1, 15), st.lists(st.floats(1, 1e3), min_size=1, max_size=10))
@settings(max_examples=cases(30, share=0.02), deadline=None)
def test_a_shared_link_is_never_idle_while_there_is_work(source: int, step: int, sizes: list[float]):
    topology = build_topology(flat(32, latency_seconds=0.0))
    flows = make_flows([source] * len(sizes), [(source + step) % 32] * len(sizes), sizes)
    result = simulate_flows(topology, flows)
    assert result.makespan_seconds == pytest.approx(sum(sizes) / 100.0)
    assert (np.diff(result.finish_seconds[np.argsort(sizes, kind="stable")]) >= -1e-9).all()


@given(st.integers(2, 7), st.integers(2, 200), st.floats(0, 0.5), st.floats(0.1, 50), st.integers(1, 3))
@settings(max_examples=cases(20, share=0.02), deadline=None)
def test_skipping_what_repeats_changes_nothing(
    ranks: int, messages: int, latency_seconds: float, message_bytes: float, lag: int
):
    topology = build_topology(nodes(2, size=4, latency_seconds=latency_seconds, oversubscription=2.0))
    numbers = np.arange(ranks)
    flows = make_flows(
        numbers, (numbers + 1) % 8, message_bytes, messages, waits=(numbers, np.roll(numbers, 1), lag)
    )
    result = simulate_flows(topology, flows)
    assert result.finish_seconds == pytest.approx(played_by_hand(topology, flows, lag), rel=1e-7)


def played_by_hand(topology: Topology, flows: FlowSet, lag: int) -> np.ndarray:
    """Message k leaves when k − 1 has left and k − lag of the flow before has arrived; no contention."""
    routes = routed(topology, flows, "even")
    drain = flows.message_bytes / alone(topology, routes)
    count, messages = flows.num_flows, int(flows.num_messages[0])
    left, arrived = np.zeros((messages, count)), np.zeros((messages, count))
    for k in range(messages):
        before = left[k - 1] if k else np.zeros(count)
        needed = np.roll(arrived[k - lag], 1) if k >= lag else np.zeros(count)
        left[k] = np.maximum(before, needed) + drain
        arrived[k] = left[k] + routes.latency_seconds
    return arrived[-1]


def test_flows_that_wait_for_each_other_are_said_not_waited_for():
    topology = build_topology(flat(4))
    circle = make_flows([0, 1], [1, 2], 1.0, waits=([0, 1], [1, 0], 0))
    with pytest.raises(PlanError, match="in a circle"):
        simulate_flows(topology, circle)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"message_bytes": -1.0}, "bytes must be finite"),
        ({"message_bytes": float("nan")}, "bytes must be finite"),
        ({"start_seconds": float("inf")}, "start must be finite"),
        ({"num_messages": 0}, "at least one message"),
        ({"waits": ([0], [7], 0)}, "not among the 1"),
        ({"destination": 0}, "to itself"),
    ],
)
def test_flows_that_make_no_sense_are_said(given: dict, said: str):
    columns = {"source": 0, "destination": 1, "message_bytes": 1.0} | given
    with pytest.raises(PlanError, match=said):
        simulate_flows(build_topology(flat(4)), make_flows(**columns))


def test_no_flows_take_no_time():
    result = simulate_flows(build_topology(flat(4)), make_flows([], [], 0.0))
    assert result.makespan_seconds == 0.0
    assert result.is_exact


def test_what_is_told_apart_less_finely_waits_longer_and_says_so():
    topology = build_topology(nodes(2, size=8), FatTree(8))
    groups = [list(range(16))]
    _, exact = simulate_groups(topology, "all_reduce", 1.0, groups)
    ring = make_flows(
        np.arange(16),
        (np.arange(16) + 1) % 16,
        1 / 16,
        30,
        waits=(np.arange(16), (np.arange(16) - 1) % 16, 1),
    )
    rough = simulate_flows(topology, ring, most_kinds=2)
    assert exact.is_exact
    assert not rough.is_exact
    assert rough.makespan_seconds > exact.makespan_seconds


@pytest.mark.parametrize("algorithm", ["tree", "double_tree", "recursive"])
def test_waiting_for_all_of_a_kind_never_goes_round_in_a_circle(algorithm: str):
    topology = build_topology(flat(64))
    flows = collective_flows("all_reduce", algorithm, 64.0, Group(np.arange(64), 64, 4))
    fine, rough = (simulate_flows(topology, flows, most_kinds=most) for most in (4096, 4))
    assert rough.makespan_seconds == pytest.approx(fine.makespan_seconds)
    circle = make_flows([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0], waits=([0, 1, 2], [1, 2, 1], 0))
    with pytest.raises(PlanError, match="in a circle"):
        simulate_flows(topology, circle, most_kinds=1)


def test_what_never_quite_repeats_is_taken_at_its_average_pace(monkeypatch: pytest.MonkeyPatch):
    topology = build_topology(nodes(64, size=4, inner_rate=310.0, latency_seconds=0.3))
    exact, played = simulate_groups(topology, "all_reduce", 1e5, [range(256)], "rings")
    monkeypatch.setattr(engine, "LONG_EVENTS", 100)
    monkeypatch.setattr(engine, "LONG_STEPS", 50)
    steady, skipped = simulate_groups(topology, "all_reduce", 1e5, [range(256)], "rings")
    assert skipped.num_events <= played.num_events
    assert steady == pytest.approx(exact, rel=0.03)


WHOLE = build_topology(flat(16), FatTree(8, (2.0,)))
TRUNKS = [(f"leaf {leaf}", f"spine {spine}") for leaf in range(3) for spine in range(2)]


@given(flow_sets(), st.sampled_from(TRUNKS))
@settings(max_examples=cases(30, share=0.02), deadline=None)
def test_what_is_sent_is_received_and_no_link_carries_more_than_all(flows: FlowSet, trunk: tuple[str, str]):
    """A link that is down changes the way, never the bytes."""
    for topology in (WHOLE, fail(WHOLE, links=[trunk])):
        carried = simulate_flows(topology, flows).link_bytes
        sent = np.zeros(16)
        received = np.zeros(16)
        np.add.at(sent, flows.source, flows.flow_bytes)
        np.add.at(received, flows.destination, flows.flow_bytes)
        assert carried[topology.up_link[0]] == pytest.approx(sent, abs=1e-6)
        assert carried[topology.down_link[0]] == pytest.approx(received, abs=1e-6)
        assert sent.sum() == pytest.approx(received.sum())
        assert carried.max() <= flows.flow_bytes.sum() * (1 + 1e-9)


@given(flow_sets(), st.floats(1, 8))
@settings(max_examples=cases(30, share=0.02), deadline=None)
def test_bytes_and_rates_times_a_factor_take_the_same_seconds(flows: FlowSet, factor: float):
    """And the same bytes at a higher rate take no longer."""
    grown = replace(WHOLE, bytes_per_second=WHOLE.bytes_per_second * factor)
    scaled = replace(flows, message_bytes=flows.message_bytes * factor)
    one, other = simulate_flows(WHOLE, flows), simulate_flows(grown, scaled)
    assert other.finish_seconds == pytest.approx(one.finish_seconds, rel=1e-6)
    faster = simulate_flows(grown, flows)
    assert faster.makespan_seconds <= one.makespan_seconds * (1 + 1e-9)
