"""What is wired, and the textbook cases of congestion on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfcast.core.machine.cluster import Cluster, Level
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.simulate.network.build import build_topology
from perfcast.simulate.network.fabrics.dragonfly import Dragonfly
from perfcast.simulate.network.fabrics.fat_tree import FatTree
from perfcast.simulate.network.fabrics.names import parse_fabric
from perfcast.simulate.network.fabrics.rail_optimised import RailOptimised
from perfcast.simulate.network.fabrics.star import Star
from perfcast.simulate.network.fabrics.torus import Torus
from perfcast.simulate.network.flows import make_flows
from perfcast.simulate.network.simulate import FlowResult, simulate_flows
from perfcast.simulate.network.topology import Topology, fail
from simulate.network.small_networks import LATENCY_SECONDS, RATE, flat, link, nodes, simulate_collective

S = 1000.0


def sent(topology: Topology, pairs: Sequence[tuple[int, int]], policy: str = "even") -> FlowResult:
    """S bytes for each pair at once."""
    sources, destinations = np.array(pairs).T
    return simulate_flows(topology, make_flows(sources, destinations, S), policy)


def rate(topology: Topology, pairs: Sequence[tuple[int, int]], policy: str = "even") -> float:
    """Of the slowest flow, with latencies taken away by a cluster that has none."""
    return S / sent(topology, pairs, policy).makespan_seconds


def across(count: int) -> list[tuple[int, int]]:
    """Every device of the first half to one of the second."""
    return [(i, i + count // 2) for i in range(count // 2)]


def test_an_uplink_oversubscribed_two_to_one_halves_the_rate_of_cross_traffic_alone():
    topology = build_topology(flat(8, latency_seconds=0.0), FatTree(6, (2.0,)))
    assert rate(topology, across(8)) == pytest.approx(RATE / 2)
    assert rate(topology, [(0, 1), (1, 2), (4, 5)]) == pytest.approx(RATE)


def test_a_star_carries_the_oversubscription_of_the_clusters_link():
    topology = build_topology(nodes(2, size=4, oversubscription=4.0, latency_seconds=0.0))
    assert rate(topology, across(8)) == pytest.approx(RATE / 4)
    assert rate(topology, [(0, 4)]) == pytest.approx(RATE)


@pytest.mark.parametrize("count", [8, 32, 128])
def test_a_fat_tree_without_oversubscription_gives_every_pair_the_full_rate(count: int):
    topology = build_topology(flat(count, latency_seconds=0.0), FatTree(8))
    assert rate(topology, across(count)) == pytest.approx(RATE)


def test_a_fat_tree_has_the_switches_of_the_textbook():
    # k = 8: k³ / 4 = 128 devices, k² / 2 edge, k² / 2 aggregation and k² / 4 core switches
    names = build_topology(flat(128), FatTree(8)).switch_names
    kinds = [name.rpartition(" ")[0] for name in names]
    assert (kinds.count("leaf"), kinds.count("core")) == (32, 16)
    assert sum(kind.endswith("spine") for kind in kinds) == 32
    with pytest.raises(PlanError, match="more than three tiers"):
        build_topology(flat(129), FatTree(8))


def test_latency_adds_up_hop_by_hop():
    topology = build_topology(flat(128), FatTree(8, hop_seconds=0.01))
    assert sent(topology, [(0, 1)]).makespan_seconds == pytest.approx(S / RATE + LATENCY_SECONDS)
    assert sent(topology, [(0, 4)]).makespan_seconds == pytest.approx(S / RATE + LATENCY_SECONDS + 0.02)
    assert sent(topology, [(0, 127)]).makespan_seconds == pytest.approx(S / RATE + LATENCY_SECONDS + 0.04)


def test_a_failed_spine_or_link_takes_its_share_of_the_bisection():
    topology = build_topology(flat(32, latency_seconds=0.0), FatTree(8))
    assert rate(fail(topology, switches=["spine 3"]), across(32)) == pytest.approx(RATE * 3 / 4)
    result = sent(fail(topology, links=[("leaf 0", "spine 1")]), across(32))
    assert S / result.finish_seconds[:4] == pytest.approx([RATE * 3 / 4] * 4)
    # the four flows above push a third more over leaf 0's other spines, and nobody else's way leads there
    assert S / result.finish_seconds[4:] == pytest.approx([RATE] * 12)


def test_what_is_cut_off_is_said():
    topology = build_topology(flat(8), FatTree(4))
    with pytest.raises(PlanError, match="'leaf 0' and 'leaf 3'"):
        sent(fail(topology, switches=["spine 0", "spine 1"]), [(0, 7)])
    with pytest.raises(PlanError, match=r"device 3 .* cut off"):
        sent(fail(topology, links=[("leaf 1", "device 3")]), [(0, 3)])
    with pytest.raises(UnknownNameError, match="spine 0"):
        fail(topology, switches=["spine 9"])
    with pytest.raises(UnknownNameError, match="has 8 devices"):
        fail(topology, links=[("device 8", "leaf 0")])
    with pytest.raises(PlanError, match="not joined"):
        fail(topology, links=[("leaf 0", "leaf 1")])


def test_a_link_has_the_name_of_its_ends():
    topology = build_topology(flat(32), FatTree(8))
    names = {topology.link_name(i) for i in topology.links_between("leaf 2", "spine 1")}
    assert names == {"leaf 2 → spine 1", "spine 1 → leaf 2"}
    assert topology.link_name(int(topology.up_link[0, 5])) == "device 5 → leaf 1"
    assert topology.link_name(int(topology.down_link[0, 5])) == "leaf 1 → device 5"
    with pytest.raises(PlanError, match="no link 9999"):
        topology.link_name(9999)


def test_hashing_collides_where_spraying_does_not():
    topology = build_topology(flat(32, latency_seconds=0.0), FatTree(8))
    assert rate(topology, across(32), "hash") <= RATE / 2
    assert rate(topology, across(32), "even") == pytest.approx(RATE)
    first, second = (sent(topology, across(32), "hash").finish_seconds for _ in range(2))
    assert (first == second).all()


def test_rails_keep_their_traffic_below_the_spines():
    cluster = nodes(4, size=4, latency_seconds=0.0)
    rails = build_topology(cluster, RailOptimised(8, has_relays=False))
    result = sent(rails, [(rank, rank + 4) for rank in range(12)])
    assert result.makespan_seconds == pytest.approx(S / RATE)
    spines = [i for i in np.flatnonzero(result.link_bytes) if "spine" in rails.link_name(i)]
    assert not spines


def test_a_relay_reaches_another_rail_inside_the_unit():
    cluster = nodes(4, size=4, latency_seconds=0.0)
    without = build_topology(cluster, RailOptimised(8, has_spines=False, has_relays=False))
    relayed = build_topology(cluster, RailOptimised(8, has_spines=False, has_relays=True))
    with pytest.raises(PlanError, match="no path"):
        sent(without, [(0, 5)])
    result = sent(relayed, [(0, 5)])
    assert result.makespan_seconds == pytest.approx(S / RATE)
    assert result.link_bytes[relayed.up_link[1, 1]] == S
    with pytest.raises(PlanError, match="5 units do not fit 4"):
        build_topology(nodes(5), RailOptimised(4, has_spines=False))


def test_adversarial_traffic_on_a_dragonfly_needs_detours():
    # 9 groups of 4 routers of 2 devices; one link for every two groups; group i sends all to group i + 1
    topology = build_topology(flat(72, latency_seconds=0.0), Dragonfly(2, 4, 2))
    adversarial = [(i, (i + 8) % 72) for i in range(72)]
    minimal, valiant, adaptive = (rate(topology, adversarial, p) for p in ("even", "valiant", "adaptive"))
    assert minimal == pytest.approx(RATE / 8)
    assert valiant > 2 * minimal
    assert adaptive >= 0.99 * valiant


def test_benign_traffic_on_a_dragonfly_needs_none():
    topology = build_topology(flat(72, latency_seconds=0.0), Dragonfly(2, 4, 2))
    near = [(i, i ^ 2) for i in range(72)]
    assert rate(topology, near) == pytest.approx(RATE / 2)
    neighbours = [(i, i ^ 1) for i in range(72)]
    for policy in ("even", "adaptive"):
        assert rate(topology, neighbours, policy) == pytest.approx(RATE)


def test_every_two_groups_of_a_dragonfly_are_joined_as_often_and_no_router_has_too_many_links():
    topology = build_topology(flat(72), Dragonfly(2, 4, 2))
    one, other = topology.tail // 4, topology.head // 4
    counts = np.zeros((9, 9), int)
    np.add.at(counts, (one, other), 1)
    assert (counts[~np.eye(9, dtype=bool)] == 1).all()
    assert (np.bincount(topology.tail) == 3 + 2).all()
    with pytest.raises(PlanError, match=r"10 groups .* 9 global links"):
        build_topology(flat(80), Dragonfly(2, 4, 2))


def test_only_a_network_with_detours_can_go_round():
    with pytest.raises(PlanError, match="no switches to go round by"):
        sent(build_topology(flat(32), FatTree(8)), [(0, 9)], "valiant")
    with pytest.raises(UnknownNameError, match="even"):
        sent(build_topology(flat(4)), [(0, 1)], "evenly")


def test_neighbours_on_a_torus_do_not_meet():
    topology = build_topology(flat(64, latency_seconds=0.0), Torus((4, 4, 4)))
    ring = [(i, i // 4 * 4 + (i + 1) % 4) for i in range(64)]
    assert rate(topology, ring) == pytest.approx(RATE / 6)
    assert rate(topology, ring[:1]) == pytest.approx(RATE / 6)
    result = sent(build_topology(flat(64), Torus((4, 4, 4))), [(0, 42)])
    assert result.makespan_seconds == pytest.approx(S / RATE + 6 * LATENCY_SECONDS)


def test_a_torus_goes_the_other_way_round_a_failed_link():
    topology = build_topology(flat(8), Torus((8,)))
    around = fail(topology, links=[("router 0", "router 1")])
    result = sent(around, [(0, 1)])
    assert result.makespan_seconds == pytest.approx(S / (RATE / 2) + 7 * LATENCY_SECONDS)


def test_a_torus_of_nodes_joins_their_ports():
    topology = build_topology(nodes(4, size=2, latency_seconds=0.0), Torus((4,)))
    assert rate(topology, [(0, 2), (1, 3)]) == pytest.approx(RATE / 2)
    assert rate(topology, [(0, 1)]) == pytest.approx(800)
    with pytest.raises(PlanError, match="3 × 3"):
        build_topology(flat(8), Torus((3, 3)))


def test_a_link_that_is_not_duplex_shares_its_rate_between_both_directions():
    both = [(0, 1), (1, 0)]
    assert rate(build_topology(flat(2, latency_seconds=0.0)), both) == pytest.approx(RATE)
    half = build_topology(flat(2, latency_seconds=0.0, is_duplex=False))
    assert rate(half, both) == pytest.approx(RATE / 2)


def test_higher_levels_share_the_rate_of_all_below():
    levels = (Level("node", 2, link(800, 0.0)), Level("site", 4, link(latency_seconds=0.0)),
              Level("world", 2, link(10.0, 1.0, oversubscription=2.0)))  # fmt: skip
    topology = build_topology(Cluster("two sites", "", "", levels), FatTree(4))
    # 8 devices · 10 / 2 leave a site together
    one, all_at_once = sent(topology, [(0, 8)]), sent(topology, across(16))
    assert one.makespan_seconds == pytest.approx(S / 40 + 1.0)
    assert all_at_once.makespan_seconds == pytest.approx(8 * S / 40 + 1.0)
    assert sent(topology, [(0, 7)]).makespan_seconds == pytest.approx(S / RATE)
    with pytest.raises(PlanError, match="'world' cannot be joined"):
        build_topology(Cluster("two sites", "", "", levels), RailOptimised(4, has_spines=False))


def test_an_inner_fabric_belongs_to_a_cluster_of_several_levels():
    topology = build_topology(nodes(2, size=4), inner=Torus((4,)))
    assert sent(topology, [(0, 1)]).makespan_seconds == pytest.approx(S / 400)
    with pytest.raises(PlanError, match="one level"):
        build_topology(flat(4), inner=Star())


def test_a_collective_of_3840_nodes_takes_no_time_to_simulate():
    topology = build_topology(nodes(3840, size=8, latency_seconds=1e-6))
    expected = 2 * 7 * (S / 8 / 800) + 2 * 3839 * (S / 8 / 3840 / RATE + 1e-6)
    got = simulate_collective(topology, "all_reduce", S, range(30720), "hierarchical")
    assert got == pytest.approx(expected)


def test_fabrics_have_names_and_options():
    assert parse_fabric("star") == Star()
    assert parse_fabric("fat-tree:radix=40,oversubscription=2/1.5,hop_us=0.25") == FatTree(
        40, (2, 1.5), 0.25e-6
    )
    assert parse_fabric("rail-optimised:relays=0") == RailOptimised(64, has_relays=False)
    assert parse_fabric("dragonfly:devices=4,routers=8,global=4") == Dragonfly(4, 8, 4)
    assert parse_fabric("torus:shape=4x4x8") == Torus((4, 4, 8))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fat-trie", "Did you mean fat-tree"),
        ("torus", "needs shape="),
        ("torus:shape=4x0", "0 is not between 1 and"),
        ("fat-tree:radix=many", "is not a whole number between 1 and"),
        ("fat-tree:oversubscription=a", "is not a number above 0"),
        ("rail-optimised:spines=yes", "0 or 1"),
        ("star:radix=4", "has no radix"),
    ],
)
def test_a_fabric_that_cannot_be_read_is_said(text: str, said: str):
    with pytest.raises(InputError, match=said):
        parse_fabric(text)


@pytest.mark.parametrize("ratios", [(0.0,), (1.0, 1.0, 1.0), (0.2,)])
def test_an_oversubscription_that_cannot_be_wired_is_said(ratios: tuple[float, ...]):
    with pytest.raises(PlanError, match="oversubscri"):
        build_topology(flat(8), FatTree(4, ratios))
