"""Pages touched anew in a step, followed block by block."""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, Storage
from perfcast.memory_use.first_touch import first_touch_bytes, with_first_touch
from perfcast.units import MIB


def graph(storages: tuple[Storage, ...], phases: tuple[Phase, ...]) -> Graph:
    operation = Operation(OperationKind.FILL, "zeros", (), (), DType.FP32, 0, 0, 1)
    nodes = tuple(Node(0, phase, "", (), ()) for phase in phases)
    return Graph(nodes, (operation,), (), storages)


def test_a_block_that_is_mapped_is_touched_anew_every_step() -> None:
    big = Storage(40 * MIB, Category.TEMPORARY, 0, 0)
    touched = first_touch_bytes(graph((big,), (Phase.FORWARD,)))
    assert touched[Phase.FORWARD] == 40 * MIB


def test_a_heap_that_is_kept_costs_nothing() -> None:
    small = Storage(1 * MIB, Category.TEMPORARY, 0, 1)
    touched = first_touch_bytes(graph((small,), (Phase.FORWARD, Phase.OPTIMIZER)))
    assert sum(touched.values()) == 0


def test_a_heap_that_is_given_back_is_touched_again() -> None:
    blocks = tuple(Storage(10 * MIB, Category.ACTIVATION, i, 5) for i in range(5))
    touched = first_touch_bytes(graph(blocks, (*(Phase.FORWARD,) * 5, Phase.OPTIMIZER)))
    assert touched == {Phase.FORWARD: 50 * MIB, Phase.BACKWARD: 0, Phase.OPTIMIZER: 0}


def test_what_is_touched_is_one_more_node_of_its_phase() -> None:
    big = Storage(40 * MIB, Category.TEMPORARY, 0, 0)
    before = graph((big,), (Phase.FORWARD,))
    after = with_first_touch(before)
    assert after.nodes[:1] == before.nodes
    (added,) = after.nodes[1:]
    assert added.phase is Phase.FORWARD
    assert after.operations[added.operation].memory_traffic_bytes == 40 * MIB
