"""Recordings as Chakra traces: the longest path is the recorded step, and simulators take them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chakra_feeder import run
from perfcast.errors import TraceError
from perfcast.traces.chakra.astra_sim import (
    NetworkDimension,
    fit_for_astra_sim,
    network_of,
    objections,
    write_astra_sim,
    write_folder,
)
from perfcast.traces.chakra.collectives import number_groups, parse_groups
from perfcast.traces.chakra.from_trace import TracedWorkload, chakra_from_traces
from perfcast.traces.chakra.order import check_order, longest_path, missing_dependencies
from perfcast.traces.chakra.play import collective_members, play_workload
from perfcast.traces.chakra.reader import groups_in, read_chakra_files
from perfcast.traces.chakra.schedule import WAIT_FOR_RANKS, Planned, build_chakra
from perfcast.traces.chakra.trace import ChakraNode, ChakraTrace, ChakraWorkload, NodeType
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels

ALL = {"Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1]", "Group_size": 2}


def rank_of_two(rank: int, late: float, group: dict[str, object] | None = None) -> Recording:
    """A step of 200 µs: work, then an all-reduce of 1000 floats that ends at 150 µs on both ranks.

    The rank comes to it ``late`` µs after 100; the last one's takes 20 µs.
    """
    recording = Recording(rank, 2)
    recording.step(1, 0, 200)
    recording.operator("aten::mm", 10, 20)
    recording.call("cudaLaunchKernel", 15, 5, 1)
    recording.kernel("gemm", 25, 70 + late, 1)
    recording.operator("c10d::allreduce_", 40, 20)
    recording.call("cudaLaunchKernel", 45, 5, 2)
    told = {name.replace("_", " "): value for name, value in (group or ALL).items()}
    recording.kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100 + late, 50 - late, 2, 20,
        **{"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"},
        **told,
    )  # fmt: skip
    recording.operator("aten::item", 70, 100)
    recording.call("cudaDeviceSynchronize", 80, 80, 3)
    return recording


def two_ranks(tmp_path: Path, *, with_waits: bool = True) -> TracedWorkload:
    traces = [rank_of_two(0, 0).read(tmp_path), rank_of_two(1, 30).read(tmp_path)]
    return chakra_from_traces(traces, with_waits=with_waits)


def the_node(trace: ChakraTrace, name: str) -> ChakraNode:
    return next(node for node in trace.nodes if node.name.startswith(name))


def before(trace: ChakraTrace, node: ChakraNode) -> set[str]:
    """Names of what a node waits for; gaps are looked through."""
    found = set()
    for number in node.data_deps:
        other = trace.by_id[number]
        found |= before(trace, other) if other.value("is_timer_op") else {other.name}
    return found


def test_one_rank_takes_as_long_as_recorded(tmp_path: Path) -> None:
    found = chakra_from_traces([two_kernels().read(tmp_path)])
    (trace,) = found.workload.traces
    check_order(trace)
    assert missing_dependencies(trace) == ()
    assert found.measured_seconds == pytest.approx((100 * MICRO,))
    assert longest_path(trace).micros == 100


def test_kernels_wait_for_launch_and_stream_and_the_host_for_them(tmp_path: Path) -> None:
    (trace,) = chakra_from_traces([two_kernels().read(tmp_path)]).workload.traces
    assert before(trace, the_node(trace, "gemm_a")) == {"cudaLaunchKernel"}
    assert before(trace, the_node(trace, "gemm_b")) == {"cudaLaunchKernel", "gemm_a"}
    assert "gemm_b" in before(trace, the_node(trace, "cudaStreamSynchronize"))
    assert [the_node(trace, name).duration_micros for name in ("gemm_a", "gemm_b")] == [20, 20]
    assert not the_node(trace, "gemm_a").is_on_host
    assert the_node(trace, "cudaLaunchKernel").is_on_host


def test_without_marked_steps_the_whole_recording_counts(tmp_path: Path) -> None:
    recording = two_kernels()
    recording.events = recording.events[1:]
    (trace,) = chakra_from_traces([recording.read(tmp_path)]).workload.traces
    assert longest_path(trace).micros == 80


def test_many_short_operators_add_up_exactly(tmp_path: Path) -> None:
    recording = Recording()
    recording.step(1, 0, 1000)
    for place in range(1000):
        recording.operator("aten::add", place + 0.25, 0.5)
    (trace,) = chakra_from_traces([recording.read(tmp_path)]).workload.traces
    assert longest_path(trace).micros == 1000
    assert len(trace.nodes) >= 1000


def test_each_rank_alone_and_both_together_take_as_long_as_recorded(tmp_path: Path) -> None:
    found = two_ranks(tmp_path)
    for trace in found.workload.traces:
        assert longest_path(trace).micros == pytest.approx(200, abs=2)
    assert play_workload(found.workload).end_seconds == pytest.approx((200 * MICRO,) * 2, abs=2 * MICRO)


def test_a_collective_says_what_it_is_and_waiting_is_not_part_of_it(tmp_path: Path) -> None:
    found = two_ranks(tmp_path)
    nodes = [the_node(trace, "nccl") for trace in found.workload.traces]
    for node in nodes:
        assert node.type == NodeType.COLLECTIVE
        assert (node.value("comm_type"), node.value("comm_size"), node.value("pg_name")) == (0, 4000, "0")
        assert node.value("is_cpu_op") is False
        assert node.duration_micros == 20
    waits = [
        sum(one.duration_micros for one in trace.nodes if one.name == WAIT_FOR_RANKS)
        for trace in found.workload.traces
    ]
    assert waits == [30, 0]


def test_without_waits_the_ranks_together_still_take_as_long(tmp_path: Path) -> None:
    found = two_ranks(tmp_path, with_waits=False)
    assert not any(node.name == WAIT_FOR_RANKS for trace in found.workload.traces for node in trace.nodes)
    assert longest_path(found.workload.traces[0]).micros < 200
    assert play_workload(found.workload).end_seconds == pytest.approx((200 * MICRO,) * 2, abs=2 * MICRO)


def test_groups_get_decimal_names_that_all_ranks_share(tmp_path: Path) -> None:
    world = range(4)
    numbers, groups = number_groups([("default", (0, 1, 2, 3)), ("tp", (0, 1)), ("tp2", (2, 3))], world)
    assert numbers == {(0, 1): "1", (2, 3): "2"}
    kept, _ = number_groups([("7", (0, 1)), ("5", (2, 3))], world)
    assert kept == {(0, 1): "7", (2, 3): "5"}
    shared, _ = number_groups([("7", (0, 1)), ("7", (2, 3))], world)
    assert shared == {(0, 1): "1", (2, 3): "2"}
    from perfcast.traces.chakra.collectives import groups_text

    assert parse_groups(groups_text(groups)) == groups
    assert parse_groups("nonsense") == ()


def test_a_group_of_some_ranks_stands_in_their_files(tmp_path: Path) -> None:
    told = {"Process_Group_Name": "tp", "Process_Group_Ranks": "[0, 1]", "Group_size": 2}
    traces = []
    for rank, late in ((0, 0), (1, 30)):
        recording = rank_of_two(rank, late, told)
        recording.world_size = 4
        traces.append(recording.read(tmp_path))
    found = chakra_from_traces(traces).workload
    assert [(group.name, group.ranks) for group in found.groups] == [("1", (0, 1))]
    assert groups_in(found.traces) == found.groups
    assert all(the_node(trace, "nccl").value("pg_name") == "1" for trace in found.traces)
    assert all(the_node(trace, "## process_group").type == NodeType.METADATA for trace in found.traces)
    with pytest.raises(TraceError, match="a network of 4 devices for 2 ranks"):
        write_astra_sim(found, tmp_path / "out", [NetworkDimension("Ring", 4, 1e9, MICRO)])


def test_astra_sim_takes_the_folder_and_finds_the_recorded_time(tmp_path: Path) -> None:
    found = two_ranks(tmp_path, with_waits=False).workload
    written = write_astra_sim(found, tmp_path / "out", network_of(found))
    assert {path.name for path in written} == {
        "workload.0.et", "workload.1.et", "comm_groups.json", "system.json", "network.yml",
        "remote_memory.json", "logical_topology.json", "run.sh",
    }  # fmt: skip
    traces = read_chakra_files(sorted((tmp_path / "out").glob("*.et")))
    again = ChakraWorkload(traces, groups_in(traces))
    assert objections(again) == ()
    # 4000 bytes among two ranks in 20 µs: 4000 bytes over each link, 200 bytes a µs; no latency beside.
    ended = run(again, 0.2, 0.0)
    assert [nanos / 1000 for nanos in ended.values()] == pytest.approx([200, 200], abs=2)
    system = json.loads((tmp_path / "out" / "system.json").read_text())
    assert system["all-reduce-implementation"] == ["ring"]
    assert json.loads((tmp_path / "out" / "comm_groups.json").read_text()) == {}
    assert "npus_count: [ 2 ]" in (tmp_path / "out" / "network.yml").read_text()
    assert 'workload-configuration="$here/workload"' in (tmp_path / "out" / "run.sh").read_text()


def test_what_astra_sim_cannot_carry_out_takes_its_duration(tmp_path: Path) -> None:
    found = two_ranks(tmp_path).workload

    def as_reduce(node: ChakraNode) -> ChakraNode:
        changed = tuple(replace(a, value=1) if a.name == "comm_type" else a for a in node.attributes)
        return replace(node, attributes=changed)

    traces = tuple(replace(t, nodes=tuple(as_reduce(n) for n in t.nodes)) for t in found.traces)
    reduced = replace(found, traces=traces)
    assert "is a collective that is not simulated" in objections(reduced)[0]
    fitted = fit_for_astra_sim(reduced)
    assert objections(fitted) == ()
    assert the_node(fitted.traces[0], "nccl").value("comm_type") == 5
    assert max(run(fitted, 1.0, 0.0).values()) == pytest.approx(200_000, abs=2000)


def test_ranks_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    found = two_ranks(tmp_path).workload
    lacking = ChakraTrace("x", found.traces[1].nodes[:2], rank=1)
    with pytest.raises(TraceError, match=r"on ranks \[0\], not on \[0, 1\]"):
        collective_members(ChakraWorkload((found.traces[0], lacking)))
    moved = tuple(replace(trace, rank=trace.rank + 1) for trace in found.traces)
    with pytest.raises(TraceError, match="ASTRA-sim needs all ranks from 0 on; there are 1, 2"):
        fit_for_astra_sim(ChakraWorkload(moved))


def test_one_rank_is_refused_for_astra_sim_as_it_refuses_it(tmp_path: Path) -> None:
    alone = ChakraWorkload(two_ranks(tmp_path).workload.traces[:1])
    assert network_of(alone) == ()
    with pytest.raises(TraceError, match="ASTRA-sim takes two ranks or more"):
        write_astra_sim(alone, tmp_path / "out", network_of(alone))
    assert not (tmp_path / "out").exists()


def test_a_schedule_with_a_circle_is_refused() -> None:
    planned = [Planned("a", 0, 1, (1,)), Planned("b", 0, 1, (0,))]
    with pytest.raises(TraceError, match="circle"):
        build_chakra("s", 0, planned)


def test_gaps_hold_up_but_occupy_nothing() -> None:
    planned = [Planned("a", 0, 3 * MICRO), Planned("b", 5 * MICRO, 6 * MICRO, (0,))]
    trace = build_chakra("s", 0, planned)
    assert [(n.name, n.duration_micros, n.data_deps) for n in trace.nodes] == [
        ("a", 3, ()), ("gap", 2, (0,)), ("b", 1, (1,)),
    ]  # fmt: skip
    assert trace.nodes[1].value("is_timer_op") is True


def gloo_rank(rank: int, late: float) -> Recording:
    """A processor's step of 200 µs: an all-reduce of 500 floats, asked for at 40, by a thread of its own.

    It ends at 150 on both ranks; the host then goes on. The later rank's takes 20 µs.
    """
    recording = Recording(rank, 2)
    recording.step(1, 0, 200)
    recording.operator("aten::mm", 10, 20 + late)
    told = {"Input Dims": [[[500]], [], []], "Input type": ["TensorList", "", ""]}
    recording._add("cpu_op", "c10d::allreduce_", 40 + late, 5, 1, told)
    range_ = {"Input Dims": [[500]], "Input type": ["float"]}
    recording._add("user_annotation", "gloo:all_reduce", 45 + late, 105 - late, 2, range_)
    recording.operator("aten::add_", 160, 30)
    return recording


def test_collectives_of_gloo_are_waited_for_by_the_host(tmp_path: Path) -> None:
    traces = [gloo_rank(rank, late).read(tmp_path) for rank, late in ((0, 0), (1, 85))]
    found = chakra_from_traces(traces)
    for trace in found.workload.traces:
        node = the_node(trace, "gloo:all_reduce")
        assert (node.type, node.value("comm_type"), node.value("comm_size")) == (NodeType.COLLECTIVE, 0, 2000)
        assert node.is_on_host is False
        assert node.duration_micros == 20
        assert longest_path(trace).micros == pytest.approx(200, rel=0.02)
        waiting = the_node(trace, "gap before aten::add_")
        assert "gloo:all_reduce" in before(trace, waiting)
    assert play_workload(found.workload).end_seconds == pytest.approx((200 * MICRO,) * 2, rel=0.02)


def test_two_recordings_of_one_rank_are_not_written(tmp_path: Path) -> None:
    found = chakra_from_traces([two_kernels().read(tmp_path)]).workload
    with pytest.raises(TraceError, match="two of the traces are of one rank"):
        write_folder(ChakraWorkload(found.traces * 2), tmp_path / "out")


def test_names_with_halves_of_characters_are_written(tmp_path: Path) -> None:
    trace = build_chakra("s", 0, [Planned("a\ud800", 0, MICRO)])
    write_folder(ChakraWorkload((trace,)), tmp_path / "out")
    assert read_chakra_files([tmp_path / "out" / "workload.0.et"])[0].nodes[0].name == "a?"


def piped(rank: int, shape: list[int] | None) -> Recording:
    """A step in which rank 0 sends what rank 1 receives, as older PyTorch records it: in marks alone."""
    told: dict[str, object] = {"Input_Dims": [shape], "Input_type": ["float"]} if shape and not rank else {}
    recording = Recording(rank, 2)
    recording.step(1, 0, 200)
    recording.operator("aten::mm", 10, 20)
    recording.mark("nccl:recv" if rank else "nccl:send", 40, 20, **told)
    recording.call("cudaLaunchKernel", 45, 5, 2)
    recording.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 100, 50, 2, 20)
    recording.call("cudaDeviceSynchronize", 80, 80, 3)
    return recording


def ends_of(workload: ChakraWorkload) -> list[tuple[NodeType, object, object]]:
    return [
        (node.type, node.value("comm_size"), node.value("comm_dst"))
        for trace in workload.traces
        for node in trace.nodes
        if "SendRecv" in node.name
    ]


def test_sends_and_receives_are_nodes_of_the_size_that_either_end_recorded(tmp_path: Path) -> None:
    found = chakra_from_traces([piped(rank, [250]).read(tmp_path) for rank in (0, 1)]).workload
    assert ends_of(found) == [(NodeType.SEND, 1000, 1), (NodeType.RECEIVE, 1000, 1)]
    assert ends_of(fit_for_astra_sim(found)) == ends_of(found)
    assert objections(found) == ()


def test_messages_without_size_or_other_end_compute_for_astra_sim(tmp_path: Path) -> None:
    found = chakra_from_traces([piped(rank, None).read(tmp_path) for rank in (0, 1)]).workload
    assert [kind for kind, _, _ in ends_of(found)] == [NodeType.SEND, NodeType.RECEIVE]
    assert [kind for kind, _, _ in ends_of(fit_for_astra_sim(found))] == [NodeType.COMPUTE] * 2
    lonely = ChakraWorkload(
        (found.traces[0], replace(found.traces[0], rank=1, nodes=found.traces[0].nodes[:1]))
    )
    assert any("no other trace has the other end" in objection for objection in objections(lonely))


def test_what_was_launched_before_a_late_rank_begins_begins_with_it(tmp_path: Path) -> None:
    """Its longest path is its own step, not also what the others were ahead."""
    late = Recording(1, 2)
    late.kernel("earlier", 35, 10, 99)
    late.step(1, 40, 100)
    late.operator("aten::mm", 50, 20)
    late.call("cudaLaunchKernel", 55, 5, 1)
    late.kernel("gemm", 65, 20, 1)
    traces = [two_kernels().read(tmp_path), late.read(tmp_path)]
    found = chakra_from_traces(traces)
    paths = [longest_path(trace).micros * MICRO for trace in found.workload.traces]
    assert paths == pytest.approx(found.measured_seconds, abs=2 * MICRO)


def test_messages_that_one_kernel_carries_out_are_a_node_each_with_peer_and_size(tmp_path: Path) -> None:
    """``batch_isend_irecv`` of two ranks: 100 elements one way, 7 the other; some sizes stand at one end."""
    ranks = []
    for rank in (0, 1):
        recording = Recording(rank, 2)
        recording.step(1, 0, 300)
        for place, (name, elements) in enumerate((("send", 0 if rank else 100), ("recv", 0 if rank else 7))):
            told = {"Collective_name": name, "In_msg_nelems": elements, "Out_msg_nelems": elements,
                    "dtype": "Float", "Group_size": 2, "Process_Group_Name": "0",
                    "Process_Group_Ranks": "[0, 1]", "Rank": 1 - rank}  # fmt: skip
            recording.operator("record_param_comms", 10 * place + 1, 6, **told)
        recording.operator("record_param_comms", 22, 20, Collective_name="coalesced")
        recording.call("cudaLaunchKernel", 30, 5, 1)
        recording.kernel("ncclDevKernel_SendRecv", 60, 50, 1, 20)
        recording.call("cudaLaunchKernel", 50, 5, 2)
        recording.kernel("gemm", 110, 20, 2, 20)
        recording.call("cudaDeviceSynchronize", 120, 80, 3)
        ranks.append(recording.read(tmp_path))
    found = chakra_from_traces(ranks).workload
    ends = [
        [(n.type, n.value("comm_size"), n.value("comm_src"), n.value("comm_dst"), n.seconds / MICRO)
         for n in trace.nodes if "SendRecv" in n.name]
        for trace in found.traces
    ]  # fmt: skip
    send, receive = (NodeType.SEND, 400, 0, 1), (NodeType.RECEIVE, 400, 0, 1)
    assert [sorted(one[:4] for one in own) for own in ends] == [
        sorted([send, (NodeType.RECEIVE, 28, 1, 0)]),
        sorted([(NodeType.SEND, 28, 1, 0), receive]),
    ]
    for trace in found.traces:
        (gemm,) = [node for node in trace.nodes if node.name == "gemm"]
        assert {trace.by_id[one].name for one in gemm.data_deps} >= {"ncclDevKernel_SendRecv"}
        assert sum(trace.by_id[one].name == "ncclDevKernel_SendRecv" for one in gemm.data_deps) == 2
    assert objections(found) == ()
