"""What a graph asks of the allocator, on graphs small enough to be followed by hand and on captured ones."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import elementwise, made_up_device, matmul
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorSettings,
    Free,
    allocation_events,
    simulate_allocator,
    simulate_graph,
)
from perfcast.memory_use.liveness import estimate_memory
from perfcast.units import KIB, MIB
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import OptimizerChoice
from small_models import TRAINING_PROGRAMS

FORWARD, BACKWARD, UPDATE = Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER
ADD, PRODUCT = 0, 1


def graph_of(nodes: list[tuple[Phase, int]], storages: list[Storage], stream: int = 0) -> Graph:
    issued = tuple(Node(operation, phase, "", (), (), stream=stream) for phase, operation in nodes)
    tensors = tuple(Tensor(TensorType((1,), DType.FP32), i) for i in range(len(storages)))
    return Graph(issued, (elementwise(1), matmul(1, 1, 1)), tensors, tuple(storages))


def test_what_is_there_comes_first_then_each_node_makes_and_drops():
    graph = graph_of(
        [(FORWARD, ADD), (FORWARD, ADD)],
        [
            Storage(1, Category.TEMPORARY, 0, 1),
            Storage(1000, Category.PARAMETER, -1, None),
            Storage(10, Category.TEMPORARY, 1, 1),
        ],
    )
    expected = (Allocate(0, 1000), Allocate(1, 1), Allocate(2, 10), Free(1), Free(2))
    assert allocation_events(graph, steps=1) == expected


def test_what_is_there_before_the_step_is_made_once_and_the_rest_in_every_step():
    storages = [Storage(1000, Category.PARAMETER, -1, None), Storage(1, Category.TEMPORARY, 0, 0)]
    events = allocation_events(graph_of([(FORWARD, ADD)], storages), steps=3)
    assert [e.num_bytes for e in events if isinstance(e, Allocate)] == [1000, 1, 1, 1]


def test_empty_storages_make_no_event():
    storages = [Storage(0, Category.PARAMETER, -1, None), Storage(0, Category.TEMPORARY, 0, 0)]
    assert allocation_events(graph_of([(FORWARD, ADD)], storages)) == ()


def test_gradients_are_dropped_before_the_next_step():
    storages = [Storage(7, Category.GRADIENT, 0, None)]
    events = allocation_events(graph_of([(BACKWARD, ADD), (UPDATE, ADD)], storages), steps=2)
    assert events == (Allocate(0, 7), Free(0), Allocate(1, 7), Free(1))


def test_an_output_is_replaced_when_its_successor_is_there():
    storages = [Storage(7, Category.ACTIVATION, 0, None)]
    events = allocation_events(graph_of([(FORWARD, ADD)], storages), steps=2)
    assert events == (Allocate(0, 7), Allocate(1, 7), Free(0))


def test_an_input_that_the_step_drops_is_made_anew_before_each_step():
    storages = [Storage(7, Category.INPUT, -1, 0)]
    events = allocation_events(graph_of([(FORWARD, ADD)], storages), steps=2)
    assert events == (Allocate(0, 7), Free(0), Allocate(1, 7), Free(1))


def test_the_optimizers_state_is_made_in_its_first_step_and_kept():
    storages = [Storage(5, Category.OPTIMIZER_STATE, -1, None), Storage(7, Category.TEMPORARY, 0, 0)]
    events = allocation_events(graph_of([(FORWARD, ADD), (UPDATE, ADD)], storages), steps=2)
    assert events == (Allocate(0, 7), Free(0), Allocate(1, 5), Allocate(2, 7), Free(2))


def test_forward_and_backward_products_take_a_workspace_each_once_and_on_every_stream():
    """The backward runs in a thread of its own, which has its own cuBLAS handle."""
    nodes = [(FORWARD, ADD), (FORWARD, PRODUCT), (FORWARD, PRODUCT), (BACKWARD, PRODUCT), (UPDATE, PRODUCT)]
    events = allocation_events(graph_of(nodes, [], stream=3), steps=2, workspace_bytes=99)
    assert events == (Allocate(0, 99, 3), Allocate(1, 99, 3))
    assert allocation_events(graph_of([(FORWARD, ADD)], []), workspace_bytes=99) == ()


@st.composite
def small_graphs(draw: st.DrawFn) -> Graph:
    """Of storages whose sizes are whole blocks of the small pool, without an optimizer."""
    num_nodes = draw(st.integers(1, 6))
    storages = []
    for _ in range(draw(st.integers(0, 10))):
        created = draw(st.integers(-1, num_nodes - 1))
        freed = draw(st.none() | st.integers(max(created, 0), num_nodes - 1))
        storages.append(Storage(512 * draw(st.integers(0, 2048)), Category.ACTIVATION, created, freed))
    return graph_of([(FORWARD, ADD)] * num_nodes, storages)


@settings(max_examples=60, deadline=None)
@given(small_graphs())
def test_the_allocated_peak_of_one_step_is_the_liveness_peak(graph: Graph):
    trace = simulate_allocator(allocation_events(graph, steps=1), AllocatorSettings())
    assert trace.peak_allocated_bytes == estimate_memory(graph, 1).peak_bytes


@cache
def captured(name: str) -> Graph:
    options = CaptureOptions(for_accelerator=True, optimizer=OptimizerChoice("adamw", "fused"))
    return capture(TRAINING_PROGRAMS[name], options)[0]


def test_a_captured_training_step_is_laid_out_as_by_hand():
    """Weights and biases of 64 → 256 → 256 → 10 in fp32, 512 rows of input, the first activation."""
    trace = simulate_graph(captured("mlp"), made_up_device(), steps=3)
    sizes = [64 * 1024, 1024, 256 * 1024, 1024, 10 * 1024, 512, 128 * 1024, 512 * 1024]
    assert list(np.diff(trace.allocated_bytes[:8], prepend=0)) == sizes
    assert trace.reserved_bytes[7] == 2 * MIB, "all of it in one small segment"
    assert trace.reserved_bytes[8] == 22 * MIB, "the first product's workspace opens a large one"
    assert trace.peak_reserved_bytes == 24 * MIB, (
        "the backward's workspace fits into it, small blocks need 4 MiB"
    )


def test_a_captured_training_step_peaks_as_it_did_when_this_was_written():
    trace = simulate_graph(captured("mlp"), made_up_device(), steps=3)
    assert trace.peak_allocated_bytes == 20_303_872
    assert trace.peak_allocated_bytes - 2 * 8320 * KIB >= estimate_memory(captured("mlp"), 1).peak_bytes
    assert list(trace.num_segments[[0, 8, -1]]) == [1, 2, 3]


def test_the_second_step_reuses_what_the_first_left():
    for name in ("mlp", "gpt2"):
        graph = captured(name)
        peaks = [simulate_graph(graph, made_up_device(), steps=n).peak_reserved_bytes for n in (1, 2, 3, 5)]
        assert peaks[0] <= peaks[1] == peaks[2] == peaks[3]


def test_a_step_runs_out_of_memory_exactly_below_what_it_needs():
    graph, device = captured("gpt2"), made_up_device()
    needed = simulate_graph(graph, device).peak_reserved_bytes
    assert simulate_graph(graph, device, capacity_bytes=needed).failure is None
    assert simulate_graph(graph, device, capacity_bytes=needed // 2).failure is not None
