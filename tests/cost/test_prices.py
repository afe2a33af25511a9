"""Kernels and collectives priced side by side."""

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.collective.datasheet import price_collective
from perfcast.cost.prices import price_operations
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError

KERNEL = Operation(OperationKind.ELEMENTWISE, "add", (), (), DType.BF16, 1, 1, 3_350_000)
DEVICE, CLUSTER = load_device("h100-sxm"), load_cluster("dgx-h100:64")


def test_a_collective_costs_what_the_cluster_says():
    reduce = collective_operation("all_reduce", 1 << 20, range(8))
    prices = price_operations([KERNEL, reduce], DEVICE, Roofline(), CLUSTER)
    assert prices.seconds[reduce] == price_collective(CLUSTER, "all_reduce", 1 << 20, tuple(range(8)))
    assert prices.provenance[reduce] == "datasheet"
    assert prices.seconds[KERNEL] == Roofline().estimate([KERNEL], DEVICE).seconds[0]


def test_a_group_across_servers_costs_more_than_one_inside():
    inside = collective_operation("all_gather", 1 << 26, range(8))
    across = collective_operation("all_gather", 1 << 26, range(0, 64, 8), num_groups=8)
    prices = price_operations([inside, across], DEVICE, Roofline(), CLUSTER)
    assert prices.seconds[across] > 2 * prices.seconds[inside]


def test_a_collective_without_a_cluster_is_an_error():
    with pytest.raises(PlanError, match=r"all_reduce.*--cluster"):
        price_operations([collective_operation("all_reduce", 8, range(2))], DEVICE, Roofline())


def test_a_group_beyond_the_cluster_is_an_error():
    with pytest.raises(PlanError, match="64 devices"):
        price_operations(
            [collective_operation("all_reduce", 8, range(0, 128, 64))], DEVICE, Roofline(), CLUSTER
        )
