from __future__ import annotations

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.memory_use.allocator import driver_requests
from perfcast.units import MIB

_ADD = Operation(OperationKind.ELEMENTWISE, "add", (), (), DType.FP32, 0, 0, 0)


def test_an_empty_cache_asks_the_driver_for_what_a_warm_one_has():
    """12 MiB has a segment of its own, 4 MiB and 4 MiB share one of 20; the third of 4 reuses the first."""
    sizes = [12 * MIB, 4 * MIB, 4 * MIB, 4 * MIB]
    freed = [3, 2, 3, 3]
    storages = tuple(
        Storage(size, Category.TEMPORARY, index, after)
        for index, (size, after) in enumerate(zip(sizes, freed, strict=True))
    )
    tensors = tuple(
        Tensor(TensorType((storage.num_bytes,), DType.UINT8, (1,)), index)
        for index, storage in enumerate(storages)
    )
    nodes = tuple(Node(0, Phase.FORWARD, "", (), (index,)) for index in range(4))
    found = driver_requests(Graph(nodes, (_ADD,), tensors, storages), load_device("h100-sxm"))
    assert found == {0: (12 * MIB,), 1: (20 * MIB,)}
