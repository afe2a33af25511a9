"""A key by identity, and what is kept by it: memory of one captured graph, whatever the device."""

from __future__ import annotations

from dataclasses import replace

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.same import Same
from perfcast.core.tensor import Storage
from perfcast.memory_use.liveness import estimate_memory
from perfcast.memory_use.reserved import reserve_memory
from perfcast.units import MIB


def graph(kind: OperationKind, num_bytes: int = 8 * MIB) -> Graph:
    operation = Operation(kind, "aten.mm", (), (), DType.BF16, 1, 1, 1)
    nodes = (Node(0, Phase.FORWARD, "", (), ()),)
    return Graph(nodes, (operation,), (), (Storage(num_bytes, "temporary", 0, 0),))


def test_equal_things_are_not_the_same():
    first, second = [1], [1]
    assert Same(first) == Same(first)
    assert Same(first) != Same(second)
    assert len({Same(first), Same(first), Same(second)}) == 2


def test_what_is_kept_of_one_graph_is_not_given_for_another():
    device = load_device("h100-sxm")
    small, large = graph(OperationKind.COPY), graph(OperationKind.COPY, 64 * MIB)
    for each in (small, large, small):
        assert estimate_memory(each, 1).peak_bytes == each.storages[0].num_bytes
        reserved = reserve_memory(each, device)
        assert reserved is not None
        assert max(reserved.allocated_bytes) == each.storages[0].num_bytes


def test_a_workspace_is_asked_for_by_products_alone_though_nodes_are_the_same():
    device = load_device("h100-sxm")
    copied = graph(OperationKind.COPY)
    product = replace(copied, operations=graph(OperationKind.MATMUL).operations)
    without, with_one = reserve_memory(copied, device), reserve_memory(product, device)
    assert without is not None
    assert with_one is not None
    assert max(with_one.allocated_bytes) > max(without.allocated_bytes)


def test_the_capacity_is_that_of_the_device_asked_about():
    same = graph(OperationKind.COPY)
    assert [estimate_memory(same, n).capacity_bytes for n in (1, 2)] == [1, 2]
