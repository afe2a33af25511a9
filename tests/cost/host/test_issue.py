from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.host.costs import OPERATOR_CLASSES, class_of, load_host_costs
from perfcast.cost.host.issue import host_of
from perfcast.cost.host.processors import processor_names, resolve_processor
from perfcast.errors import UnknownNameError
from perfcast.units import MIB

H100 = load_device("h100-sxm")
REFERENCE = "epyc-7742"
_TENSOR = TensorType((8, 8), DType.FP32, (8, 1))


def operation(kind: OperationKind, name: str = "aten.op") -> Operation:
    return Operation(kind, name, (_TENSOR,), (_TENSOR,), DType.FP32, 0, 0, 512)


ADD, PRODUCT = operation(OperationKind.ELEMENTWISE), operation(OperationKind.MATMUL)


def graph_of(*nodes: Node) -> Graph:
    return Graph(nodes, (ADD, PRODUCT), (), ())


def node(kind: int, phase: Phase = Phase.FORWARD, views: int = 0, calls: int = 0) -> Node:
    return Node(kind, phase, "", (), (), num_views=views, num_calls=calls)


def test_a_forward_costs_its_operators_views_and_module_calls():
    costs = load_host_costs().eager
    found = host_of(H100, "eager", REFERENCE).issue_seconds(graph_of(node(0), node(1, views=3, calls=2)))
    product = costs.operators["product"] + 3 * costs.view + 2 * costs.module_call
    assert found.tolist() == pytest.approx([costs.operators["light"], product])


def test_a_backward_is_called_from_c_and_its_forward_is_recorded():
    costs = load_host_costs().eager
    graph = graph_of(node(0, views=1), node(0, Phase.BACKWARD, views=2))
    forward, backward = host_of(H100, "eager", REFERENCE).issue_seconds(graph)
    light = costs.operators["light"]
    recorded = costs.recorded_operator + costs.recorded_view
    assert forward == pytest.approx(light + costs.view + recorded)
    in_engine = costs.backward_share * light + costs.backward_node + 2 * costs.backward_view
    assert backward == pytest.approx(in_engine)


def test_requests_for_memory_stop_the_host():
    costs, host = load_host_costs(), host_of(H100, "eager", REFERENCE)
    graph = graph_of(node(0), node(0))
    more = host.issue_seconds(graph, {1: (2 * MIB, 4 * MIB)}) - host.issue_seconds(graph)
    expected = 2 * costs.driver_request + 6 * MIB * costs.driver_byte
    assert more.tolist() == pytest.approx([0.0, expected])


def test_a_processor_multiplies_what_the_host_takes():
    graph = graph_of(node(0), node(1))
    slow, reference = host_of(H100, "eager", "slow"), host_of(H100, "eager", REFERENCE)
    ratio = slow.issue_seconds(graph) / reference.issue_seconds(graph)
    assert ratio.tolist() == pytest.approx([slow.processor.slowness] * 2)


def test_a_device_has_the_processor_that_its_machines_usually_have():
    usual = resolve_processor(None, H100)
    named = resolve_processor("xeon-8480", H100)
    assert (usual.name, usual.is_chosen) == ("xeon-8480", True)
    assert not named.is_chosen
    assert named.spread < usual.spread


def test_an_unknown_processor_is_an_error_that_lists_what_there_is():
    with pytest.raises(UnknownNameError, match="epyc-7742"):
        resolve_processor("epyc-7743", H100)


def test_the_wait_is_between_that_of_a_fast_and_a_slow_host():
    graph = graph_of(*[node(0)] * 50)
    wait = host_of(H100, "eager").wait(graph, np.full(50, 5e-6))
    assert 0 < wait.seconds_low < wait.seconds < wait.seconds_high
    assert wait.busy_seconds > wait.seconds


def test_a_device_is_idle_behind_a_result_that_its_host_reads():
    # three kernels of 1 ms, issued at 0, h and 2h: it waits for the first, and for the one behind a read one
    host, graph, kernels = host_of(H100, "eager", REFERENCE), graph_of(*[node(0)] * 3), np.full(3, 1e-3)
    pace = load_host_costs().eager.operators["light"]
    reads = np.array([False, True, False])
    assert host.wait(graph, kernels).seconds == pytest.approx(pace)
    assert host.wait(graph, kernels, waited_for=reads).seconds == pytest.approx(2 * pace)
    assert host.wait(graph, kernels, waited_for=~reads).seconds == pytest.approx(2 * pace)


def test_a_part_begins_with_an_idle_device():
    graph = graph_of(*[node(1)] * 3, *[node(1, Phase.BACKWARD)] * 3)
    host, seconds = host_of(H100, "eager"), np.full(6, 1e-3)
    is_backward = np.array([False] * 3 + [True] * 3)
    whole = host.wait(graph, seconds)
    apart = [host.wait(graph, seconds, part=part) for part in (~is_backward, is_backward)]
    first = host.issue_seconds(graph)[[0, 3]]
    assert whole.seconds == pytest.approx(first[0])
    assert [wait.seconds for wait in apart] == pytest.approx(first.tolist())


nodes = st.lists(
    st.builds(
        node,
        st.integers(0, 1),
        st.sampled_from([Phase.FORWARD, Phase.BACKWARD]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=30,
)


@given(nodes, st.floats(0, 1e-4))
def test_a_faster_host_never_makes_a_step_longer(some: list[Node], seconds: float):
    graph, kernels = graph_of(*some), np.full(len(some), seconds)
    waits = {
        resolve_processor(name, H100).slowness: host_of(H100, "eager", name).wait(graph, kernels).seconds
        for name in processor_names()
    }
    in_order = [waits[slowness] for slowness in sorted(waits)]
    assert in_order == sorted(in_order)


@given(nodes, st.floats(0, 1e-4))
def test_more_operators_never_make_a_step_shorter(some: list[Node], seconds: float):
    host = host_of(H100, "eager")
    fewer, more = graph_of(*some), graph_of(*some, node(0))
    before = host.wait(fewer, np.full(len(some), seconds)).seconds + len(some) * seconds
    after = host.wait(more, np.full(len(some) + 1, seconds)).seconds + (len(some) + 1) * seconds
    assert after >= before - 1e-12


@given(st.integers(1, 60), st.integers(0, 60))
def test_a_cuda_graph_costs_the_host_no_more_than_what_it_replays(forward: int, backward: int):
    graph = graph_of(*[node(0)] * forward, *[node(1, Phase.BACKWARD)] * backward)
    graphs, eager = (host_of(H100, mode).issue_seconds(graph).sum() for mode in ("graphs", "eager"))
    assert graphs <= eager + load_host_costs().graph_launch


def test_many_small_kernels_are_issued_faster_compiled_and_fastest_as_a_graph():
    graph = graph_of(*[node(0, views=1, calls=1)] * 100)
    eager, compiled, graphs = (
        host_of(H100, mode).issue_seconds(graph).sum() for mode in ("eager", "compiled", "graphs")
    )
    assert graphs < compiled < eager


def test_every_kind_has_a_class_with_a_cost():
    costs = load_host_costs().eager.operators
    assert set(costs) == set(OPERATOR_CLASSES)
    for kind in OperationKind:
        assert costs[class_of(operation(kind))] > 0
    norm = operation(OperationKind.NORMALIZATION, "native_batch_norm")
    assert class_of(norm) == "batch_norm"
    assert class_of(replace(norm, name="native_layer_norm")) == "normalisation"


def test_the_pace_of_a_graph_is_its_hosts_time_over_its_kernels():
    graph, host = graph_of(node(0), node(1, views=2)), host_of(H100, "eager")
    assert host.pace_seconds(graph) == pytest.approx(host.issue_seconds(graph).sum() / 2)
    assert host.pace_seconds(graph_of()) == 0.0


def test_a_desktop_board_has_a_desktops_processor():
    names = {
        name: resolve_processor(None, load_device(name)).name
        for name in ("rtx-4090", "gb200", "v100-sxm-16gb")
    }
    assert names == {"rtx-4090": "i9-13900k", "gb200": "grace", "v100-sxm-16gb": "xeon-e5-2698-v4"}
