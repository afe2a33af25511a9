"""Graphs small enough to be followed by hand. Sizes are different powers of ten, so that sums read off."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import elementwise
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.memory_use.liveness import estimate_memory

ANY_TYPE = TensorType((1,), DType.FP32, (1,))
A, P, T = Category.ACTIVATION, Category.PARAMETER, Category.TEMPORARY


def graph_of(nodes: list[tuple[list[int], list[int]]], storages: list[Storage], views: int = 0) -> Graph:
    """Nodes as (inputs, outputs) by tensor: tensor i looks into storage i, ``views`` more into storage 0."""
    tensors = [Tensor(ANY_TYPE, i) for i in range(len(storages))] + [Tensor(ANY_TYPE, 0)] * views
    issued = tuple(
        Node(0, Phase.FORWARD, f"layer.{i}", tuple(reads), tuple(writes))
        for i, (reads, writes) in enumerate(nodes)
    )
    return Graph(issued, (elementwise(1),), tuple(tensors), tuple(storages))


def chain() -> Graph:
    """weight → a → b → c; the program keeps a until the end of node 2 though node 1 is its last reader."""
    return graph_of(
        [([0], [1]), ([1], [2]), ([2], [3])],
        [Storage(1000, P, -1, None), Storage(100, A, 0, 2), Storage(10, T, 1, 2), Storage(1, T, 2, None)],
    )


def test_the_timeline_holds_each_storage_from_its_creation_to_the_drop_of_its_last_reference():
    assert estimate_memory(chain(), 2000).timeline_bytes == (1100, 1110, 1111)


def test_the_peak_is_where_the_timeline_is_highest_and_is_named():
    memory = estimate_memory(chain(), 2000)
    assert (memory.peak_bytes, memory.peak_node) == (1111, 2)
    assert (memory.peak_operation, memory.peak_module, memory.peak_phase) == ("add", "layer.2", "forward")
    assert memory.bytes_by_category == {P: 1000, A: 100, T: 11}


def test_freeing_by_last_use_lets_go_of_what_the_program_holds_too_long():
    # node 0: 1000 + 100; node 1: 1000 + 100 + 10; node 2: 1000 + 10 + 1 (a is no longer needed)
    assert estimate_memory(chain(), 2000).peak_by_last_use_bytes == 1110


def test_views_share_the_storage_that_they_look_into():
    storages = [Storage(100, T, 0, 1)]
    with_views = graph_of([([], [0]), ([1, 2], [3])], storages, views=3)
    assert estimate_memory(with_views, 1).timeline_bytes == (100, 100)


def test_a_read_through_a_view_keeps_the_storage_alive():
    storages = [Storage(100, T, 0, 2), Storage(7, T, 1, 1)]
    memory = estimate_memory(graph_of([([], [0]), ([], [1]), ([2], [])], storages, views=1), 1)
    assert memory.peak_by_last_use_bytes == 107
    assert memory.intervals[0].last_used_by == 2


def test_an_operation_in_place_adds_nothing():
    storages = [Storage(100, T, 0, 2)]
    assert (
        estimate_memory(graph_of([([], [0]), ([0], [0]), ([0], [0])], storages), 1).timeline_bytes
        == (100,) * 3
    )


def test_parameters_are_held_throughout_even_where_no_node_reads_them():
    memory = estimate_memory(
        graph_of([([], [1]), ([1], [])], [Storage(1000, P, -1, None), Storage(1, T, 0, 1)]), 1
    )
    assert memory.timeline_bytes_by_category[P] == (1000, 1000)
    assert memory.peak_by_last_use_bytes == 1001


def test_what_was_there_before_and_is_dropped_during_the_step_is_held_until_then():
    storages = [Storage(50, Category.INPUT, -1, 0), Storage(1, T, 0, 2)]
    memory = estimate_memory(graph_of([([0], [1]), ([1], [1]), ([1], [1])], storages), 1)
    assert memory.timeline_bytes == (51, 1, 1)


def test_of_equal_peaks_the_first_counts():
    storages = [Storage(100, T, 0, 0), Storage(100, T, 2, 2)]
    assert estimate_memory(graph_of([([], [0]), ([], []), ([], [1])], storages), 1).peak_node == 0


def test_empty_storages_have_no_interval():
    memory = estimate_memory(graph_of([([], [0]), ([0], [1])], [Storage(0, T, 0, 1), Storage(4, T, 1, 1)]), 1)
    assert [interval.num_bytes for interval in memory.intervals] == [4]


def test_a_step_without_nodes_holds_what_was_there_before():
    memory = estimate_memory(graph_of([], [Storage(1000, P, -1, None)]), 1)
    assert (memory.peak_bytes, memory.peak_operation) == (1000, "")


@pytest.mark.parametrize(("capacity", "fits"), [(1111, True), (1110, False)])
def test_a_step_fits_if_its_peak_does(capacity: int, fits: bool):
    assert estimate_memory(chain(), capacity).fits is fits


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    num_nodes = draw(st.integers(1, 12))
    storages = []
    for _ in range(draw(st.integers(0, 12))):
        created = draw(st.integers(-1, num_nodes - 1))
        freed = draw(st.none() | st.integers(max(created, 0), num_nodes - 1))
        storages.append(
            Storage(draw(st.integers(0, 10**12)), draw(st.sampled_from(Category.ALL)), created, freed)
        )
    # A node touches only what lives: that is what a program can do.
    nodes = []
    for index in range(num_nodes):
        alive = [
            i
            for i, s in enumerate(storages)
            if s.created_by <= index and (s.freed_after is None or index <= s.freed_after)
        ]
        nodes.append((draw(st.lists(st.sampled_from(alive), max_size=3)) if alive else [], []))
    return graph_of(nodes, storages)


def held(graph: Graph, index: int, by_last_use: bool = False) -> int:
    """Brute force: every storage asked whether it is alive at a node."""
    total = 0
    for i, storage in enumerate(graph.storages):
        uses = [n for n, node in enumerate(graph.nodes) if i in (*node.inputs, *node.outputs)]
        end = len(graph.nodes) if storage.freed_after is None else storage.freed_after
        if by_last_use and storage.freed_after is not None and storage.created_by >= 0:
            end = max([storage.created_by, *uses])
        total += storage.num_bytes if max(storage.created_by, 0) <= index <= end else 0
    return total


@settings(max_examples=100, deadline=None)
@given(random_graphs())
def test_timeline_and_peaks_are_those_of_brute_force(graph: Graph):
    memory = estimate_memory(graph, 1)
    expected = [held(graph, i) for i in range(len(graph.nodes))]
    assert list(memory.timeline_bytes) == expected
    assert memory.peak_bytes == max(expected) == expected[memory.peak_node]
    assert memory.peak_by_last_use_bytes == max(held(graph, i, True) for i in range(len(graph.nodes)))


@settings(max_examples=50, deadline=None)
@given(random_graphs())
def test_categories_sum_to_the_total_at_every_node_and_last_use_never_needs_more(graph: Graph):
    memory = estimate_memory(graph, 1)
    for index, total in enumerate(memory.timeline_bytes):
        assert sum(timeline[index] for timeline in memory.timeline_bytes_by_category.values()) == total
    assert sum(memory.bytes_by_category.values()) == memory.peak_bytes
    assert memory.peak_by_last_use_bytes <= memory.peak_bytes
