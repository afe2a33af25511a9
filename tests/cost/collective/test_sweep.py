from __future__ import annotations

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.collective import bus_factor
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.cost.collective.datasheet import price_collective
from perfcast.cost.collective.sweep import sweep_sizes
from perfcast.errors import PlanError, UnknownNameError

MESH = DeviceMesh(load_cluster("dgx-h100:64"), ("dp", "tp"), (8, 8))


def test_the_inner_axis_lies_in_a_node_and_the_outer_one_across_nodes():
    inner, outer = (sweep_sizes(MESH, [axis], "all_reduce", [1e9]) for axis in ("tp", "dp"))
    assert (inner.span, outer.span) == ((8, 1), (1, 8))
    assert inner.times.seconds[0] < outer.times.seconds[0]
    assert inner.concurrent_groups == outer.concurrent_groups == 8


def test_bus_bandwidth_is_what_nccl_tests_print():
    sweep = sweep_sizes(MESH, ["tp"], "all_reduce", [1e9])
    assert sweep.bus_bytes_per_second[0] == pytest.approx(1e9 * 2 * 7 / 8 / sweep.times.seconds[0])
    assert bus_factor("all_reduce", 8) == pytest.approx(14 / 8)
    assert bus_factor("all_to_all", 4) == pytest.approx(3 / 4)
    assert bus_factor("broadcast", 4) == 1


def test_both_axes_together_are_all_devices():
    assert sweep_sizes(MESH, ["dp", "tp"], "all_gather", [1e6]).group_size == 64


def test_one_call_among_ranks_costs_what_the_sweep_says():
    sweep = sweep_sizes(MESH, ["tp"], "all_reduce", [1e8], concurrent_groups=1)
    assert price_collective(MESH.cluster, "all_reduce", 1e8, tuple(range(8))) == sweep.times.seconds[0]


def test_ranks_that_fill_nodes_unevenly_are_refused():
    with pytest.raises(PlanError, match="unevenly"):
        price_collective(MESH.cluster, "all_reduce", 1e6, (0, 1, 8))


def test_an_unknown_axis_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="dp, tp"):
        sweep_sizes(MESH, ["pp"], "all_reduce", [1e6])
