"""Cases that can be worked out by hand: pure links, round figures."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from made_up_clusters import cluster, pure
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.token_routing import TokenRouting
from perfcast.cost.collective.constants import DispatchConstants
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.geometry import dispatch_visits
from perfcast.cost.collective.table import collective_table, uneven_bytes
from perfcast.errors import InputError, UnknownNameError


def seconds(
    on: Cluster, collective: str, size: float, span: tuple[int, ...], algorithm: str, **more: float
) -> float:
    table = collective_table(collective, size, [span], **more)
    return float(price_collectives(on, table, algorithm, pure()).seconds[0])


NODE = cluster((8, 100.0))
NODES = cluster((4, 100.0), (4, 10.0))


def test_a_ring_all_reduce_moves_each_byte_twice_but_for_one_part():
    assert seconds(NODE, "all_reduce", 800, (8,), "ring") == pytest.approx(2 * 7 / 8 * 800 / 100)


def test_a_ring_through_nodes_is_as_fast_as_the_ports_of_a_node_together():
    assert seconds(NODES, "all_gather", 1600, (4, 4), "ring") == pytest.approx(15 / 16 * 1600 / 40)


def test_a_ring_of_one_member_per_node_has_one_port():
    assert seconds(NODES, "all_gather", 1600, (1, 4), "ring") == pytest.approx(3 / 4 * 1600 / 10)


def test_hops_of_a_ring_cross_each_level_as_often_as_it_has_children_less_one():
    far = cluster((4, 1e30), (2, 1e30), latency_seconds=1.0)
    assert seconds(far, "all_gather", 0, (4, 2), "ring") == pytest.approx(7)
    assert seconds(far, "all_reduce", 0, (4, 2), "ring") == pytest.approx(14)


def test_an_inner_member_of_one_tree_sends_up_once_and_down_twice():
    assert seconds(NODE, "all_reduce", 100, (8,), "tree") == pytest.approx(3)
    assert seconds(NODE, "all_reduce", 100, (2,), "tree") == pytest.approx(1)


def test_two_trees_between_two_nodes_send_the_message_once_each_way():
    slow = cluster((4, 1e9), (4, 10.0))
    assert seconds(slow, "all_reduce", 400, (4, 2), "double_tree") == pytest.approx(400 / 40)
    assert seconds(slow, "all_reduce", 400, (4, 4), "double_tree") == pytest.approx(800 / 40)


def test_a_tree_has_as_many_hops_as_levels():
    far = cluster((8, 1e30), latency_seconds=1.0)
    assert seconds(far, "all_reduce", 0, (8,), "tree") == pytest.approx(6)


def test_recursive_halving_moves_what_a_ring_moves_in_fewer_hops():
    far = cluster((8, 100.0), latency_seconds=1.0)
    assert seconds(far, "all_reduce", 800, (8,), "recursive") == pytest.approx(14 + 6)


def test_recursive_halving_of_no_power_of_two_sends_the_rest_there_and_back():
    assert seconds(NODE, "all_reduce", 100, (6,), "recursive") == pytest.approx(2 * 3 / 4 + 2)


def test_hierarchical_all_reduce_halves_what_it_takes_outwards():
    inner, outer = 2 * 3 / 4 * 1600 / 100, 2 * 3 / 4 * 400 / 10
    assert seconds(NODES, "all_reduce", 1600, (4, 4), "hierarchical") == pytest.approx(inner + outer)


def test_switches_that_reduce_take_the_message_and_one_part_of_each_member():
    sharp = cluster((8, 100.0), reduces_in_network=True)
    assert seconds(sharp, "all_reduce", 800, (8,), "in_network") == pytest.approx(800 * (1 + 1 / 8) / 100)


def test_switches_above_them_take_each_members_part_once():
    sharp = cluster((4, 1e9), (4, 10.0), reduces_in_network=True)
    assert seconds(sharp, "all_reduce", 400, (4, 4), "in_network") == pytest.approx(100 / 10)


def test_switches_do_not_reduce_what_they_cannot_add():
    sharp = cluster((8, 100.0), reduces_in_network=True)
    table = collective_table("all_reduce", 800, [(8,)], reducible=False)
    assert price_collectives(sharp, table, "nccl", pure()).algorithm(0) == "ring"


def test_all_to_all_takes_as_long_as_its_slowest_level():
    assert seconds(NODES, "all_to_all", 1600, (4, 4), "direct") == pytest.approx(1600 * 12 / 16 / 10)
    assert seconds(NODE, "all_to_all", 800, (8,), "direct") == pytest.approx(700 / 100)


def test_an_uneven_all_to_all_waits_for_the_busiest_rank():
    sent = [[0, 30, 30], [10, 0, 10], [50, 20, 0]]  # rank 2 sends 70, rank 0 receives 60
    assert uneven_bytes(sent) == pytest.approx(70 * 3 / 2)
    assert uneven_bytes([[5, 100, 100], [100, 5, 100], [100, 100, 5]]) == pytest.approx(300)


def test_an_uneven_all_to_all_must_be_a_square():
    with pytest.raises(InputError):
        uneven_bytes([[1, 2, 3], [1, 2, 3]])


def test_a_message_goes_at_the_rate_of_the_level_that_parts_sender_and_receiver():
    assert seconds(NODES, "send", 100, (2, 1), "direct") == pytest.approx(1)
    assert seconds(NODES, "receive", 100, (1, 2), "direct") == pytest.approx(10)


def test_the_roots_link_carries_all_but_its_own_part():
    assert seconds(NODE, "gather_to_root", 800, (8,), "direct") == pytest.approx(7)
    assert seconds(NODE, "scatter_from_root", 800, (8,), "direct") == pytest.approx(7)


def test_broadcast_and_reduce_pass_the_message_on_once():
    assert seconds(NODE, "broadcast", 800, (8,), "ring") == pytest.approx(8)
    assert seconds(NODE, "reduce", 800, (8,), "ring") == pytest.approx(8)


def test_a_half_duplex_link_has_half_for_each_direction():
    bus = cluster((8, 100.0), is_duplex=False)
    assert seconds(bus, "broadcast", 800, (8,), "ring") == pytest.approx(16)


def test_collectives_on_the_same_links_share_them():
    alone = seconds(NODE, "all_reduce", 800, (8,), "ring")
    assert seconds(NODE, "all_reduce", 800, (8,), "ring", sharing=3) == pytest.approx(3 * alone)


def test_an_oversubscribed_level_is_full_only_when_all_are_active():
    thin = cluster((1, 1e9), (16, 10.0), oversubscription=4)
    alone = seconds(thin, "all_gather", 400, (1, 4), "ring")
    assert alone == pytest.approx(300 / 10)
    assert seconds(thin, "all_gather", 400, (1, 4), "ring", concurrent_groups=4) == pytest.approx(4 * alone)


def test_a_port_belongs_to_one_device_while_its_neighbours_are_silent():
    shared = cluster((4, 1e9), (2, 10.0), port_bytes_per_second=40.0)
    assert seconds(shared, "send", 400, (1, 2), "direct") == pytest.approx(10)
    assert seconds(shared, "send", 400, (1, 2), "direct", concurrent_groups=4) == pytest.approx(40)


def test_a_group_of_a_size_that_has_few_rings_takes_longer():
    mesh = cluster((4, 100.0), ring_bytes_per_second=(25.0, 50.0, 100.0))
    assert seconds(mesh, "broadcast", 100, (2,), "ring") == pytest.approx(4)
    assert seconds(mesh, "broadcast", 100, (4,), "ring") == pytest.approx(1)


def test_a_barrier_is_an_all_reduce_of_nothing():
    far = cluster((8, 100.0), latency_seconds=1.0)
    assert seconds(far, "barrier", 1e9, (8,), "ring") == pytest.approx(14)


@pytest.mark.parametrize(("collective", "algorithm"), [("all_to_all", "ring"), ("all_reduce", "fast")])
def test_an_algorithm_that_a_collective_does_not_have_is_refused(collective: str, algorithm: str):
    with pytest.raises(UnknownNameError):
        seconds(NODE, collective, 100, (8,), algorithm)


def test_a_group_larger_than_the_cluster_is_refused():
    with pytest.raises(InputError, match="does not lie"):
        seconds(NODE, "all_reduce", 100, (9,), "ring")
    with pytest.raises(InputError, match="levels"):
        seconds(NODE, "all_reduce", 100, (8, 1), "ring")


@pytest.mark.parametrize("size", [-1.0, float("nan"), float("inf")])
def test_a_message_that_cannot_be_is_refused(size: float):
    with pytest.raises(InputError):
        collective_table("all_reduce", size, [(8,)])


def test_an_unknown_collective_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="all_reduce"):
        collective_table("allreduce", 1, [(8,)])


def test_a_dispatch_sends_one_copy_to_each_node_and_one_to_each_rank():
    routing = TokenRouting(8, 2)
    visits = dispatch_visits(NODES, [routing], [(4, 2)])
    nodes = 2 * (1 - 3 / 14)  # of 28 pairs of experts, 6 lie on one node, and as many on the other
    assert visits[0].tolist() == pytest.approx([8 * (1 - 21 / 28) / 2, nodes / 2, 1 / 2])
    # 800 bytes are two copies of 400; the half that is on the other node goes at 10 bytes a second
    assert seconds(NODES, "dispatch", 800, (4, 2), "nccl", visits=visits) == pytest.approx(
        400 * nodes / 2 / 10
    )


def test_a_dispatch_in_a_node_sends_fewer_rows_than_an_all_to_all():
    every = dispatch_visits(NODE, [TokenRouting(8, 8)], [(8,)])
    assert seconds(NODE, "dispatch", 800, (8,), "nccl", visits=every) == pytest.approx(700 / 100)
    crowded = dispatch_visits(NODE, [TokenRouting(256, 8)], [(8,)])
    assert seconds(NODE, "dispatch", 800, (8,), "nccl", visits=crowded) < seconds(
        NODE, "all_to_all", 800, (8,), "direct"
    )


def test_multiprocessors_of_a_dispatch_also_read_and_write_its_own_rows():
    constants = replace(pure(), dispatch=DispatchConstants(50.0, 25.0, 100.0))
    for on, span, pace in (
        (cluster((16, 1e9)), (8,), 100.0),
        (NODE, (8,), 50.0),
        (NODES, (4, 1), 50.0),
        (cluster((4, 1e9), (2, 1e9)), (4, 2), 25.0),
    ):
        visits = dispatch_visits(on, [TokenRouting(8, 8)], [span])
        table = collective_table("dispatch", 800, [span], visits=visits)
        ranks = math.prod(span)
        inside = span[0]
        found = float(price_collectives(on, table, constants=constants).seconds[0])
        assert found == pytest.approx(100 * (ranks * (inside - 1) / inside + 2) / pace)
