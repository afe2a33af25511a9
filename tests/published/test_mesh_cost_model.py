"""The cost model's arithmetic by hand: lines along axes, sums over a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from builders import made_up_device
from perfcast.core.collective import format_ranks
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.cost.cluster_profile import ClusterProfile, CollectiveSample, fit_axes
from perfcast.cost.model import Estimates
from perfcast.errors import PlanError
from perfcast.measure.mesh_discovery.found import DiscoveredAxis, DiscoveredMesh
from perfcast.published.mesh_cost_model import (
    AxisLine,
    Mesh,
    MeshAxis,
    discovered_mesh,
    estimate_step,
    fit_axis,
    profiled_mesh,
)


class OneSecondEach:
    """Fitted lines of a made-up device: every operation takes a second, half as long or twice."""

    name = "linear"

    def estimate(self, operations, device) -> Estimates:
        ones = np.ones(len(operations))
        names = ("compute",) * len(operations)
        return Estimates(ones, ones / 2, ones * 2, names, ("measured",) * len(operations))


VALUES = TensorType((256,), DType.FP32, (1,))


def collective(ranks: Sequence[int], name: str = "all_reduce") -> Operation:
    attributes = (("group_size", len(ranks)), ("message_bytes", 1024), ("ranks", format_ranks(ranks)))
    return Operation(
        OperationKind.COLLECTIVE, name, (VALUES,), (VALUES,), DType.FP32, 0, 0, 2048, attributes=attributes
    )


def graph(*operations: Operation) -> Graph:
    nodes = tuple(Node(i, Phase.FORWARD, "", (0,), (0,)) for i in range(len(operations)))
    return Graph(nodes, operations, (Tensor(VALUES, 0),), (Storage(1024, Category.INPUT, -1, None),))


def axis(name: str, size: int, latency: float = 0.0, rate: float = 1024.0, mape: float = 0.0) -> MeshAxis:
    return MeshAxis(name, size, {"all_reduce": AxisLine(latency, rate, 1.0, mape)})


ADD = Operation(OperationKind.ELEMENTWISE, "add", (VALUES,), (VALUES,), DType.FP32, 256, 0, 2048)


def test_the_line_of_an_axis_is_recovered_from_its_profile():
    sizes = np.array([2.0**n for n in range(10, 28)])
    line = fit_axis("dp", 8, sizes, 20e-6 + sizes / 40e9).line("all_reduce")
    assert line.latency_seconds == pytest.approx(20e-6, rel=1e-6)
    assert line.bytes_per_second == pytest.approx(40e9, rel=1e-6)
    assert line.seconds(40e6) == pytest.approx(20e-6 + 1e-3)


def test_a_profile_gives_each_axis_the_lines_of_what_was_measured_along_it():
    sizes = [2**n for n in range(10, 24)]
    samples = [CollectiveSample("dp", 2, "all_reduce", n, 1e-5 + n / 1e9) for n in sizes]
    samples += [CollectiveSample("tp", 4, "all_gather", n, 2e-5 + n / 4e9) for n in sizes]
    mesh = profiled_mesh(ClusterProfile("here", "gloo", 8, fit_axes(samples).axes))
    assert mesh.num_ranks == 8
    assert mesh.axes[1].line("all_gather").bytes_per_second == pytest.approx(4e9, rel=1e-5)
    with pytest.raises(PlanError, match="all_to_all along 'tp' was not profiled; profiled: all_gather"):
        mesh.axes[1].line("all_to_all")


def test_a_collective_that_was_not_profiled_is_half_of_an_all_reduce_as_a_ring_sends_it():
    half = axis("dp", 4, 1e-3, 1e9).line("reduce_scatter")
    assert half.seconds(1e9) == pytest.approx(0.5 * axis("dp", 4, 1e-3, 1e9).line("all_reduce").seconds(1e9))


def test_a_discovered_axis_runs_a_ring_of_two_n_minus_two_steps():
    def found(name: str, size: int, latency: float, rate: float) -> DiscoveredAxis:
        return DiscoveredAxis(name, size, latency, latency, latency, rate, rate, rate, 0.0, 10)

    mesh = discovered_mesh(
        DiscoveredMesh(
            shape=(2, 4), ranks=tuple(range(8)), groups=((tuple(range(8)),), ((0, 1, 2, 3), (4, 5, 6, 7))),
            axes=(found("outer", 2, 10e-6, 1e9), found("inner", 4, 2e-6, 8e9)), confidence=1.0, num_ranks=8,
        )
    )  # fmt: skip
    outer, inner = (one.line("all_reduce") for one in mesh.axes)
    # six messages of a quarter each: 6 · 2 µs + 6 / 4 · bytes / 8 GB/s
    assert inner.seconds(8e9) == pytest.approx(12e-6 + 1.5)
    assert outer.seconds(1e9) == pytest.approx(20e-6 + 1.0)


def test_a_step_is_the_sum_of_its_operators_and_of_its_collectives_along_their_axes():
    mesh = Mesh((axis("dp", 4, 1e-3),))
    cost = estimate_step(graph(ADD, collective(range(4)), ADD), made_up_device(), OneSecondEach(), mesh)
    assert cost.operator_seconds == 2.0
    assert cost.communication_seconds == pytest.approx(1.001)
    assert cost.step_seconds == pytest.approx(3.001)
    assert cost.step_seconds_low < cost.step_seconds < cost.step_seconds_high
    assert cost.peak_memory_bytes == 1024
    assert [(each.name, each.runs, each.seconds) for each in cost.operators] == [("add", 2, 2.0)]


def test_axes_of_one_size_are_told_apart_by_the_ranks_of_the_group():
    mesh = Mesh((axis("slow", 2, rate=1.0), axis("fast", 2, rate=1024.0)))
    for ranks, seconds in ((range(2), 1.0), (range(0, 4, 2), 1024.0)):
        cost = estimate_step(graph(collective(ranks)), made_up_device(), OneSecondEach(), mesh)
        assert cost.communication_seconds == pytest.approx(seconds)


def test_a_group_over_several_axes_reduces_inside_and_sends_its_share_outside():
    mesh = Mesh((axis("outer", 2, rate=512.0), axis("inner", 4)))
    cost = estimate_step(graph(collective(range(8))), made_up_device(), OneSecondEach(), mesh)
    # 1024 bytes inside at 1024 B/s, a quarter of them outside at 512 B/s
    assert {each.axis: each.seconds for each in cost.collectives} == {"outer": 0.5, "inner": 1.0}


def test_ranks_of_a_discovered_order_keep_their_axes():
    mesh = Mesh((axis("outer", 2, rate=1.0), axis("inner", 2)), ranks=(0, 3, 1, 2))
    assert [one.name for one in mesh.spanned((0, 3))] == ["inner"]
    assert [one.name for one in mesh.spanned((0, 1))] == ["outer"]


def test_an_axis_off_its_line_widens_the_interval_and_overlap_lowers_its_low_end():
    step, device, lines = graph(ADD, collective(range(4))), made_up_device(), OneSecondEach()
    exact = estimate_step(step, device, lines, Mesh((axis("dp", 4),)))
    doubtful = estimate_step(step, device, lines, Mesh((axis("dp", 4, mape=0.5),)))
    beside = estimate_step(step, device, lines, Mesh((axis("dp", 4),)), overlaps=True)
    assert doubtful.step_seconds_high == pytest.approx(exact.step_seconds_high + 1.03)
    assert beside.step_seconds_low == pytest.approx(1.0)
    assert beside.step_seconds == exact.step_seconds


def test_ranks_that_share_a_core_take_turns_on_it_but_for_the_low_end():
    step, device, lines = graph(ADD, collective(range(4))), made_up_device(), OneSecondEach()
    alone = estimate_step(step, device, lines, Mesh((axis("dp", 4),)))
    crowded = estimate_step(step, device, lines, Mesh((axis("dp", 4),)), crowding=2.0)
    assert crowded.operator_seconds == pytest.approx(2 * alone.operator_seconds)
    assert crowded.communication_seconds == alone.communication_seconds  # measured with all ranks at work
    assert crowded.step_seconds_low == alone.step_seconds_low
    assert alone.step_seconds < crowded.step_seconds < crowded.step_seconds_high


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (collective(range(3)), r"ranks 0, 1, 2 are no group along the axes of the mesh dp=4"),
        (collective((0, 9)), r"rank 9 is not one of the mesh's 4"),
        (collective((0, 1), "send"), r"sends between stages \(send\)"),
    ],
    ids=["no group", "no rank", "send"],
)
def test_what_the_mesh_cannot_price_is_refused(operation: Operation, said: str):
    with pytest.raises(PlanError, match=said):
        estimate_step(graph(operation), made_up_device(), OneSecondEach(), Mesh((axis("dp", 4),)))
