"""A collective on axes of a mesh through a fabric, against what the closed forms say by hand."""

from __future__ import annotations

import pytest

from made_up_clusters import pure
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.errors import InputError
from perfcast.simulate.network.mesh import groups_of, simulate_axes, usual_algorithm

FAST, SLOW = 100e9, 10e9


def mesh(nodes: int = 4, devices: int = 2) -> DeviceMesh:
    inside = Level("node", devices, Link("nvlink4", 1e-6, FAST))
    between = Level("network", nodes, Link("infiniband-ndr", 5e-6, SLOW))
    cluster = Cluster("made-up", "made up", "h100-sxm", (inside, between))
    return DeviceMesh(cluster, ("dp", "tp"), (nodes, devices))


def test_the_groups_of_an_axis_are_all_groups_each_once():
    assert groups_of(mesh(), ["tp"]) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert groups_of(mesh(), ["dp"]) == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_an_uncongested_ring_takes_its_closed_form():
    (time,) = simulate_axes(mesh(), ["dp"], "all_reduce", [1e9], "star", constants=pure())
    steps = 2 * 3
    assert time.seconds == pytest.approx(steps * (0.25e9 / SLOW + 5e-6), rel=1e-3)


def test_an_oversubscribed_uplink_is_the_busiest_link_and_takes_twice_as_long():
    open_fabric = "fat-tree:radix=4"
    narrow = "fat-tree:radix=4,oversubscription=2"
    (wide,) = simulate_axes(mesh(nodes=8, devices=1), ["dp"], "all_to_all", [1e8], open_fabric)
    (half,) = simulate_axes(mesh(nodes=8, devices=1), ["dp"], "all_to_all", [1e8], narrow)
    assert half.seconds > 1.3 * wide.seconds
    assert half.busiest[0][1] == pytest.approx(1, abs=0.05)


def test_a_fabric_that_is_none_lists_what_there_is():
    with pytest.raises(InputError, match="fat-tree"):
        simulate_axes(mesh(), ["dp"], "all_reduce", [1e6], "fattree")


def test_rings_go_through_all_ranks_of_a_unit_where_a_group_has_several():
    assert usual_algorithm("all_reduce", (8, 4)) == "rings"
    assert usual_algorithm("all_reduce", (1, 4)) == usual_algorithm("all_gather", (8, 1)) == "ring"
    assert usual_algorithm("broadcast", (8, 4)) == "ring"
    assert usual_algorithm("all_to_all", (8, 4)) == "direct"
