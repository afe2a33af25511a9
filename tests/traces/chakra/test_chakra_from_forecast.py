"""Forecasts as Chakra traces: one device's graph, and the ranks of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakra_feeder import run
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.core.training import Training
from perfcast.frameworks.choice import default_framework
from perfcast.simulate.part_times import time_parts
from perfcast.simulate.training import play_step, time_of_played
from perfcast.traces.chakra.astra_sim import fit_for_astra_sim, objections
from perfcast.traces.chakra.from_graph import chakra_from_graph
from perfcast.traces.chakra.from_plan import chakra_from_played
from perfcast.traces.chakra.order import check_order, longest_path, missing_dependencies
from perfcast.traces.chakra.play import play_workload
from perfcast.traces.chakra.reader import groups_in, read_chakra_files
from perfcast.traces.chakra.trace import ChakraWorkload, NodeType
from perfcast.units import MICRO
from perfcast.workload.blocks import build_step_work
from small_transformers import llama

EXAMPLE = Path(__file__).parents[3] / "examples" / "astra_sim"


def graph_of_three() -> Graph:
    """Two nodes that read an input, and one that reads what the first made."""
    type_ = TensorType((4, 8), DType.FP32)
    operation = Operation(
        OperationKind.ELEMENTWISE, "aten.relu", (type_,), (type_,), DType.FP32, 32, 0, 256, 0, ()
    )
    nodes = (
        Node(0, Phase.FORWARD, "a", (0,), (1,)),
        Node(0, Phase.FORWARD, "b", (0,), (2,)),
        Node(0, Phase.BACKWARD, "c", (1,), (3,)),
    )
    tensors = tuple(Tensor(type_, storage) for storage in range(4))
    storages = tuple(Storage(128, Category.ACTIVATION, -1, -1) for _ in range(4))
    return Graph(nodes, (operation,), tensors, storages)


def test_nodes_of_a_graph_depend_on_the_stream_and_on_what_made_their_inputs() -> None:
    trace = chakra_from_graph(graph_of_three(), (2 * MICRO, 3 * MICRO, 4 * MICRO), 5 * MICRO)
    check_order(trace)
    assert [node.data_deps for node in trace.nodes] == [(), (0,), (0, 1), (2,)]
    assert longest_path(trace).micros == 14
    first = trace.nodes[0]
    assert (first.value("num_ops"), first.value("tensor_size")) == (32, 256)
    assert (first.value("module"), first.value("phase")) == ("a", "forward")
    assert first.inputs is not None
    assert first.inputs.shapes == "[[4, 8]]"
    assert [node.is_on_host for node in trace.nodes] == [False, False, False, True]


def a_step(launch_seconds: float = 5 * MICRO, **degrees: int) -> tuple[float, dict[bool, ChakraWorkload]]:
    """Seconds of a step of a small transformer, each operation 10 µs, and its traces by ``with_waits``."""
    plan = Plan(**degrees)
    training = Training(framework=default_framework(plan))
    work = build_step_work(llama(), plan, training, 32)
    seconds = dict.fromkeys(work.operations(), 10 * MICRO)
    played = play_step(work, time_parts(work, seconds, launch_seconds=launch_seconds))
    step = time_of_played(played).step_seconds
    return step, {w: chakra_from_played(played, with_waits=w) for w in (True, False)}


PLANS = (
    {"data_parallel": 2, "num_micro_batches": 2},
    {"data_parallel": 2, "zero_stage": 3, "num_micro_batches": 2},
    {"tensor_parallel": 2, "pipeline_parallel": 2, "num_micro_batches": 3},
    {"pipeline_parallel": 4, "num_micro_batches": 4},
)


@pytest.mark.parametrize("plan", PLANS)
def test_all_ranks_of_a_plan_together_take_the_forecast_step(plan: dict[str, int]) -> None:
    step, workloads = a_step(**plan)
    for with_waits, workload in workloads.items():
        for trace in workload.traces:
            check_order(trace)
            assert missing_dependencies(trace) == ()
        assert max(play_workload(workload).end_seconds) == pytest.approx(step, abs=5 * MICRO)
        if with_waits:
            alone = max(longest_path(trace).micros for trace in workload.traces)
            assert alone * MICRO == pytest.approx(step, abs=5 * MICRO)


@pytest.mark.parametrize("plan", PLANS)
def test_what_a_slow_host_does_behind_the_last_kernel_is_not_of_the_step(plan: dict[str, int]) -> None:
    step, workloads = a_step(launch_seconds=40 * MICRO, **plan)
    for workload in workloads.values():
        assert max(play_workload(workload).end_seconds) == pytest.approx(step, abs=5 * MICRO)


def test_stages_send_what_their_neighbours_receive() -> None:
    _, workloads = a_step(pipeline_parallel=2, num_micro_batches=2)
    first, second = workloads[False].traces
    ends = []
    for trace in (first, second):
        found = [node for node in trace.nodes if node.type in (NodeType.SEND, NodeType.RECEIVE)]
        ends += [tuple(node.number(f"comm_{part}") for part in ("src", "dst", "tag")) for node in found]
    assert len(ends) == 8
    assert all(ends.count(end) == 2 for end in ends)
    assert {(source, target) for source, target, _ in ends} == {(0, 1), (1, 0)}


def test_each_rank_names_the_groups_that_it_is_in() -> None:
    _, workloads = a_step(tensor_parallel=2, data_parallel=2, num_micro_batches=2)
    workload = workloads[False]
    ranks = {group.name: group.ranks for group in workload.groups}
    assert set(ranks.values()) >= {(0, 1), (2, 3), (0, 2), (1, 3)}
    for trace in workload.traces:
        named = {node.group for node in trace.nodes if node.type == NodeType.COLLECTIVE}
        assert all(trace.rank in ranks[name] for name in named - {"0"})


@pytest.mark.parametrize("plan", PLANS)
def test_astra_sim_would_take_a_plan_and_finish(plan: dict[str, int]) -> None:
    fitted = fit_for_astra_sim(a_step(**plan)[1][False])
    assert objections(fitted) == ()
    assert len(run(fitted, 100.0, 100.0)) == len(fitted.traces)


def test_the_example_is_whole() -> None:
    traces = read_chakra_files(sorted(EXAMPLE.glob("workload.*.et")))
    workload = ChakraWorkload(traces, groups_in(traces))
    assert [trace.rank for trace in traces] == [0, 1, 2, 3]
    assert objections(workload) == ()
    ended = run(workload, 300.0, 600.0)
    assert max(ended.values()) / 1e9 == pytest.approx(max(play_workload(workload).end_seconds), rel=0.2)
