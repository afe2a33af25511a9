"""Memory of each operator, by hand: sizes are different powers of ten, so that sums read off."""

from __future__ import annotations

from builders import elementwise
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.memory_use.liveness import peak_bytes
from perfcast.memory_use.operators import operator_memory

ANY = TensorType((1,), DType.FP32, (1,))
A, P, T = Category.ACTIVATION, Category.PARAMETER, Category.TEMPORARY
F, B = Phase.FORWARD, Phase.BACKWARD

#: A weight of 10000; node 0 makes a kept 1000 and a temporary 100, node 1 an output of 10 that goes before
#: the backward; node 2, of the backward, reads the kept one and makes 1.
GRAPH = Graph(
    nodes=(
        Node(0, F, "", (0, 5), (1, 2)),
        Node(0, F, "", (1,), (3,)),
        Node(0, B, "", (0, 1), (4,)),
    ),
    operations=(elementwise(1),),
    tensors=tuple(Tensor(ANY, storage) for storage in (0, 1, 2, 3, 4, 0)),
    storages=(
        Storage(10_000, P, -1, None),
        Storage(1_000, A, 0, 2),
        Storage(100, T, 0, 0),
        Storage(10, T, 1, 1),
        Storage(1, T, 2, None),
    ),
)


def test_an_operator_is_its_inputs_outputs_and_temporaries_and_views_count_once():
    first, second, third = operator_memory(GRAPH)
    assert (first.input_bytes, first.output_bytes, first.temporary_bytes) == (10_000, 1_000, 100)
    assert first.whole_bytes == 11_100
    assert (second.input_bytes, second.output_bytes, second.temporary_bytes) == (1_000, 0, 10)
    assert third.whole_bytes == 11_001


def test_what_the_backward_still_finds_is_kept_and_nothing_of_the_backward_is():
    assert [one.kept_bytes for one in operator_memory(GRAPH)] == [1_000, 0, 0]


def test_what_is_alive_at_most_is_the_peak():
    assert [one.live_bytes for one in operator_memory(GRAPH)] == [11_100, 11_010, 11_001]
    assert peak_bytes(GRAPH) == 11_100
