"""The critical path of small recordings, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.traces.critical_path.graph import EdgeKind
from perfcast.traces.critical_path.path import BoundBy, CriticalPath, build_path_graph, find_critical_path
from perfcast.traces.events import Trace
from perfcast.traces.link.kernels import link_kernels
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels


def path_of(trace: Trace) -> CriticalPath:
    return find_critical_path(trace, link_kernels(trace.events), 0.0, trace.end_seconds)


def in_words(trace: Trace, path: CriticalPath) -> list[tuple[str, str, int]]:
    """(what, of which event, microseconds) of each stretch that takes time."""
    return [
        (s.bound_by.value, trace.events.name(s.row) if s.row >= 0 else "", round(s.seconds / MICRO))
        for s in path.stretches
        if s.seconds > 0
    ]


def synchronised() -> Recording:
    """A long kernel that the host waits for, as synchronisation events say."""
    recording = Recording()
    recording.operator("aten::mm", 0, 20)
    recording.call("cudaLaunchKernel", 5, 5, 1)
    recording.kernel("gemm", 15, 100, 1)
    recording.call("cudaStreamSynchronize", 30, 90, 2)
    recording.synchronization("Stream Sync", 31, 88, 2, stream=7)
    recording.operator("aten::add", 125, 10)
    return recording


def test_the_path_goes_through_the_kernel_that_the_host_waits_for(tmp_path: Path):
    trace = synchronised().read(tmp_path)
    path = path_of(trace)
    assert in_words(trace, path) == [
        ("host", "aten::mm", 5),
        ("launch", "", 10),
        ("device compute", "gemm", 100),
        ("host", "aten::add", 10),
    ]
    assert path.has_synchronizations
    assert path.seconds_by_bound["device compute"] == pytest.approx(100 * MICRO)


def test_a_kernel_behind_another_is_joined_by_its_stream(tmp_path: Path):
    recording = two_kernels()
    recording.synchronization("Stream Sync", 61, 2, 3, stream=7)
    trace = recording.read(tmp_path)
    graph = build_path_graph(trace, link_kernels(trace.events), 0.0, trace.end_seconds)
    kinds = [edge.kind for edge in graph.edges.values()]
    assert kinds.count(EdgeKind.STREAM_ORDER) == 1
    assert kinds.count(EdgeKind.LAUNCH) == 1
    assert kinds.count(EdgeKind.SYNC) == 1


def test_a_stream_that_waits_for_an_event_is_joined_to_the_work_before_it(tmp_path: Path):
    recording = Recording()
    recording.call("cudaLaunchKernel", 0, 2, 1)
    recording.kernel("first", 5, 50, 1, stream=7)
    recording.call("cudaEventRecord", 3, 1, 2)
    recording.call("cudaStreamWaitEvent", 5, 1, 3)
    recording.synchronization(
        "Stream Wait Event", 5, 1, 3, stream=9, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2
    )
    recording.call("cudaLaunchKernel", 8, 2, 4)
    recording.kernel("second", 55, 10, 4, stream=9)
    trace = recording.read(tmp_path)
    graph = build_path_graph(trace, link_kernels(trace.events), 0.0, trace.end_seconds)
    joined = {
        (trace.events.name(graph.rows[e.begin]), trace.events.name(graph.rows[e.end]))
        for e in graph.edges.values()
        if e.kind is EdgeKind.SYNC
    }
    assert joined == {("first", "second")}


def test_the_lock_of_the_runtime_orders_launches_of_two_threads(tmp_path: Path):
    recording = Recording()
    recording.call("cudaLaunchKernel", 0, 20, 1, thread=1)
    recording.call("cudaLaunchKernel", 5, 10, 2, thread=2)
    trace = recording.read(tmp_path)
    graph = build_path_graph(trace, link_kernels(trace.events), 0.0, trace.end_seconds)
    # Thread 2 ended first, so it had the lock first: its end, and thread 1's start, lead on.
    ends = {(graph.moments[e.begin], graph.moments[e.end]) for e in graph.edges.values()}
    assert (15_000, 20_000) in ends
    assert (0, 15_000) in ends


def test_a_collective_on_the_path_is_communication(tmp_path: Path):
    recording = synchronised()
    for event in recording.events:
        if event["name"] == "gemm":
            event["name"] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    trace = recording.read(tmp_path)
    spent = [s.bound_by for s in path_of(trace).stretches if s.seconds > 0]
    assert BoundBy.COMMUNICATION in spent


spans = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=20
)


@settings(max_examples=60, deadline=None)
@given(spans)
def test_no_path_is_longer_than_its_window(tmp_path_factory: pytest.TempPathFactory, drawn):
    recording = Recording()
    for index, (start, duration, thread) in enumerate(drawn):
        recording.operator(f"aten::op{index}", start, duration, thread=thread)
    trace = recording.read(tmp_path_factory.mktemp("drawn"))
    window = trace.end_seconds
    path = path_of(trace)
    assert path.seconds <= window * (1 + 1e-9)
    starts = [s.start_seconds for s in path.stretches]
    assert starts == sorted(starts)
