"""The cost model's arithmetic by hand: lines along axes, sums over a graph."""

from __future__ import annotations

import numpy as np
import pytest

from builders import made_up_device
from perfcast.core.collective import format_ranks
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.cost.model import Estimates
from perfcast.errors import PlanError
from perfcast.measure.mesh_discovery.found import DiscoveredAxis, DiscoveredMesh
from perfcast.published.mesh_cost_model import MeshAxis, discovered_axes, estimate_step, fit_axis


class OneSecondEach:
    """Fitted lines of a made-up device: every operation takes a second."""

    def estimate(self, operations, device) -> Estimates:
        ones = np.ones(len(operations))
        names = ("compute",) * len(operations)
        return Estimates(ones, ones, ones, names, ("measured",) * len(operations))


VALUES = TensorType((256,), DType.FP32, (1,))


def all_reduce(ranks: range) -> Operation:
    attributes = (("group_size", len(ranks)), ("message_bytes", 1024), ("ranks", format_ranks(ranks)))
    return Operation(
        OperationKind.COLLECTIVE,
        "all_reduce",
        (VALUES,),
        (VALUES,),
        DType.FP32,
        0,
        0,
        2048,
        attributes=attributes,
    )


def graph(*operations: Operation) -> Graph:
    nodes = tuple(Node(i, Phase.FORWARD, "", (0,), (0,)) for i in range(len(operations)))
    return Graph(nodes, operations, (Tensor(VALUES, 0),), (Storage(1024, Category.INPUT, -1, None),))


def test_the_line_of_an_axis_is_recovered_from_its_profile():
    sizes = np.array([2.0**n for n in range(10, 28)])
    axis = fit_axis("dp", 8, sizes, 20e-6 + sizes / 40e9)
    assert axis.latency_seconds == pytest.approx(20e-6, rel=1e-6)
    assert axis.bytes_per_second == pytest.approx(40e9, rel=1e-6)
    assert axis.seconds(40e6) == pytest.approx(20e-6 + 1e-3)


def test_a_discovered_axis_runs_a_ring_of_two_n_minus_two_steps():
    def axis(name: str, size: int, latency: float, rate: float) -> DiscoveredAxis:
        return DiscoveredAxis(name, size, latency, latency, latency, rate, rate, rate, 0.0, 10)

    mesh = DiscoveredMesh(
        shape=(2, 4), ranks=tuple(range(8)), groups=((tuple(range(8)),), ((0, 1, 2, 3), (4, 5, 6, 7))),
        axes=(axis("outer", 2, 10e-6, 1e9), axis("inner", 4, 2e-6, 8e9)), confidence=1.0, num_ranks=8,
    )  # fmt: skip
    outer, inner = discovered_axes(mesh)
    # six messages of a quarter each: 6 · 2 µs + 6 / 4 · bytes / 8 GB/s
    assert inner.seconds(8e9) == pytest.approx(12e-6 + 1.5)
    assert outer.seconds(1e9) == pytest.approx(20e-6 + 1.0)


def test_a_step_is_the_sum_of_its_operators_and_of_its_collectives_along_their_axes():
    add = Operation(OperationKind.ELEMENTWISE, "add", (VALUES,), (VALUES,), DType.FP32, 256, 0, 2048)
    axes = [MeshAxis("dp", 4, 1e-3, 1024.0)]
    cost = estimate_step(graph(add, all_reduce(range(4)), add), made_up_device(), OneSecondEach(), axes)
    assert cost.operator_seconds == 2.0
    assert cost.communication_seconds == pytest.approx(1.001)
    assert cost.peak_memory_bytes == 1024


def test_a_group_that_no_axis_has_is_refused_with_the_axes():
    with pytest.raises(PlanError, match=r"over 3 ranks; the mesh has axes of \[4\]"):
        estimate_step(
            graph(all_reduce(range(3))), made_up_device(), OneSecondEach(), [MeshAxis("dp", 4, 0, 1.0)]
        )
