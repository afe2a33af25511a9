"""Collectives on an idle network take what the closed forms say: S bytes, n ranks, rate B, latency a."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfcast.core.collective import COLLECTIVES
from perfcast.errors import PlanError, UnknownNameError
from perfcast.simulate.network.build import build_topology
from perfcast.simulate.network.collectives import RULES, algorithms, binary_parents
from perfcast.simulate.network.simulate import simulate_groups
from simulate.network.small_networks import LATENCY_SECONDS, RATE, flat, nodes, simulate_collective

S = 1200.0


def seconds(collective: str, algorithm: str, count: int, num_chunks: int = 1) -> float:
    topology = build_topology(flat(count))
    return simulate_collective(topology, collective, S, range(count), algorithm, num_chunks=num_chunks)


@pytest.mark.parametrize("count", [2, 3, 8, 61])
def test_a_ring_all_reduce_moves_each_byte_twice(count: int):
    expected = 2 * (count - 1) * (S / count / RATE + LATENCY_SECONDS)
    assert seconds("all_reduce", "ring", count) == pytest.approx(expected)


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("count", [2, 5])
def test_a_ring_all_gather_or_reduce_scatter_moves_each_byte_once(collective: str, count: int):
    expected = (count - 1) * (S / count / RATE + LATENCY_SECONDS)
    assert seconds(collective, "ring", count) == pytest.approx(expected)


def test_a_ring_both_ways_round_takes_half_as_long_on_a_ring_of_links():
    topology = build_topology(flat(6, is_switched=False))
    one_way = simulate_collective(topology, "all_reduce", S, range(6), "ring")
    both_ways = simulate_collective(topology, "all_reduce", S, range(6), "two_way_ring")
    assert one_way == pytest.approx(10 * (S / 6 / (RATE / 2) + LATENCY_SECONDS))
    assert both_ways == pytest.approx(10 * (S / 6 / RATE + LATENCY_SECONDS))


@pytest.mark.parametrize("count", [2, 4, 16])
def test_recursive_halving_and_doubling_takes_few_steps_and_moves_each_byte_twice(count: int):
    expected = 2 * math.log2(count) * LATENCY_SECONDS + 2 * (count - 1) / count * S / RATE
    assert seconds("all_reduce", "recursive", count) == pytest.approx(expected)


def test_recursive_halving_needs_a_power_of_two():
    with pytest.raises(PlanError, match="not 6"):
        seconds("all_reduce", "recursive", 6)


@pytest.mark.parametrize("chunks", [1, 4])
def test_a_tree_of_two_ranks_sends_up_and_each_chunk_down_as_it_arrives(chunks: int):
    expected = S / RATE + S / chunks / RATE + 2 * LATENCY_SECONDS
    assert seconds("all_reduce", "tree", 2, chunks) == pytest.approx(expected)


def test_a_tree_of_four_ranks_passes_one_chunk_over_two_levels_each_way():
    # 1 and 3 send to 2 at once, over its one link; 2 sends to 0; and back.
    expected = 2 * (2 * S / RATE + S / RATE + 2 * LATENCY_SECONDS)
    assert seconds("all_reduce", "tree", 4) == pytest.approx(expected)


def test_a_double_tree_of_many_chunks_comes_near_the_full_rate():
    cut = build_topology(flat(16, latency_seconds=0.0))
    tree, double = (
        simulate_collective(cut, "all_reduce", S, range(16), algorithm, num_chunks=128)
        for algorithm in ("tree", "double_tree")
    )
    assert 2 * S / RATE <= double < 1.2 * 2 * S / RATE
    assert tree > 1.5 * double


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("chunks", [1, 10])
def test_a_chain_of_chunks_is_the_textbook_pipeline(collective: str, chunks: int):
    # chunk j leaves rank i at (i + j) S / (k B) + i a
    expected = (chunks + 3) * S / chunks / RATE + 4 * LATENCY_SECONDS
    assert seconds(collective, "ring", 5, chunks) == pytest.approx(expected)


@pytest.mark.parametrize("count", [2, 7])
def test_an_all_to_all_at_once_pays_latency_once_and_one_in_turn_each_time(count: int):
    moved = (count - 1) / count * S / RATE
    assert seconds("all_to_all", "direct", count) == pytest.approx(moved + LATENCY_SECONDS)
    assert seconds("all_to_all", "pairwise", count) == pytest.approx(moved + (count - 1) * LATENCY_SECONDS)


def test_incast_shares_the_last_link():
    assert seconds("gather_to_root", "direct", 5) == pytest.approx(4 / 5 * S / RATE + LATENCY_SECONDS)
    assert seconds("reduce", "direct", 5) == pytest.approx(4 * S / RATE + LATENCY_SECONDS)
    assert seconds("scatter_from_root", "direct", 5) == pytest.approx(4 / 5 * S / RATE + LATENCY_SECONDS)


def test_a_message_takes_latency_and_bytes_over_rate():
    assert seconds("send", "direct", 2) == pytest.approx(LATENCY_SECONDS + S / RATE)
    with pytest.raises(PlanError, match="two ranks, not 3"):
        seconds("send", "direct", 3)


def test_a_barrier_takes_latencies_alone():
    # 1 and 3 to 2, 2 to 0, and back
    assert seconds("barrier", "tree", 4) == pytest.approx(4 * LATENCY_SECONDS)


def test_a_hierarchical_all_reduce_is_the_sum_of_its_stages():
    topology = build_topology(nodes(3, size=4))
    inside = 3 * (S / 4 / 800)
    across = 2 * 2 * (S / 4 / 3 / RATE + LATENCY_SECONDS)
    got = simulate_collective(topology, "all_reduce", S, range(12), "hierarchical")
    assert got == pytest.approx(2 * inside + across)


def test_rings_through_all_use_every_port_between_units():
    topology = build_topology(nodes(2, size=4, inner_rate=1e9, latency_seconds=0.0))
    one = simulate_collective(topology, "all_reduce", S, range(8), "ring")
    four = simulate_collective(topology, "all_reduce", S, range(8), "rings")
    assert one == pytest.approx(14 / 8 * S / RATE, rel=1e-3)
    assert four == pytest.approx(one / 4, rel=1e-3)


def test_a_ring_over_nodes_waits_for_latencies_as_they_lie_not_for_the_longest_each_time():
    topology = build_topology(nodes(4, size=4))
    got = simulate_collective(topology, "all_reduce", 1e-6, range(16), "ring")
    # of 30 hops in a row the one path with most crossings has 8
    assert got == pytest.approx(8 * LATENCY_SECONDS, rel=1e-6)


def test_groups_at_once_share_what_they_have_in_common_and_nothing_else():
    topology = build_topology(flat(8, oversubscription=2.0))
    apart, _ = simulate_groups(topology, "all_reduce", S, [range(4)])
    both, _ = simulate_groups(topology, "all_reduce", S, [range(4), range(4, 8)])
    twice, _ = simulate_groups(topology, "all_reduce", S, [range(4), range(4)])
    step = S / 4 / (RATE / 2)
    assert apart == pytest.approx([6 * (step + LATENCY_SECONDS)])
    assert both == pytest.approx([apart[0], apart[0]])
    assert twice == pytest.approx([6 * (2 * step + LATENCY_SECONDS)] * 2)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_has_an_algorithm_and_one_rank_alone_takes_no_time(collective: str):
    for algorithm in algorithms(collective):
        assert seconds(collective, algorithm, 1) == 0.0


@pytest.mark.parametrize(("collective", "algorithm"), RULES)
def test_every_rule_runs_to_the_end(collective: str, algorithm: str):
    count = 2 if collective in ("send", "receive") else 8
    topology = build_topology(nodes(2, size=4))
    got = simulate_collective(topology, collective, S, range(count), algorithm, num_chunks=3)
    assert got > 0


@pytest.mark.parametrize("count", [*range(1, 40), 1000])
def test_a_binary_tree_reaches_all_and_no_place_has_more_than_two_children(count: int):
    parents = binary_parents(count)
    children = np.bincount(parents[1:], minlength=count)
    assert children.max(initial=0) <= 2
    at, hops = np.arange(count), 0
    while (at > 0).any():
        at, hops = np.where(at > 0, parents[at], 0), hops + 1
    assert hops <= math.ceil(math.log2(count)) + 1 if count > 1 else hops == 0


def test_what_is_unknown_is_said():
    with pytest.raises(UnknownNameError, match="all_reduce"):
        seconds("allreduce", "ring", 4)
    with pytest.raises(UnknownNameError, match="Known: direct, pairwise"):
        seconds("all_to_all", "ring", 4)
    with pytest.raises(PlanError, match="each once"):
        simulate_collective(build_topology(flat(4)), "all_reduce", S, [0, 1, 1])
    with pytest.raises(PlanError, match="device 9"):
        simulate_collective(build_topology(flat(4)), "all_reduce", S, [0, 9])
    with pytest.raises(PlanError, match="unevenly"):
        simulate_collective(build_topology(nodes(2)), "all_reduce", S, [0, 1, 4], "hierarchical")
    with pytest.raises(PlanError, match="at least one chunk"):
        seconds("broadcast", "tree", 4, 0)
