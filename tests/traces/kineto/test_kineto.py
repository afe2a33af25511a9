from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_up_traces import document, event, kernel, launch, timeline, write
from perfcast.errors import TraceError
from perfcast.traces.events import NONE, Category, OperatorInputs, Thread
from perfcast.traces.kineto.reader import read_kineto, read_ranks
from recorded_traces import two_kernels


def test_events_stand_in_order_of_start_with_longer_ones_first(tmp_path: Path):
    trace = timeline(tmp_path, [event("b", 20, 5), event("child", 10, 4), event("parent", 10, 9)])
    assert [trace.events.name(row) for row in range(3)] == ["parent", "child", "b"]
    assert trace.events.orders.tolist() == [2, 1, 0]


def test_times_become_seconds_since_the_first_event(tmp_path: Path):
    trace = timeline(tmp_path, [event("a", 1_700_000_000_000_000, 10), event("b", 1_700_000_000_000_003, 2)])
    assert trace.origin_nanoseconds == 1_700_000_000_000_000_000
    assert trace.events.start_seconds.tolist() == [0.0, 3e-6]
    assert trace.events.end_seconds.tolist() == pytest.approx([10e-6, 5e-6])


def test_fractional_microseconds_keep_their_nanoseconds(tmp_path: Path):
    trace = timeline(tmp_path, [event("a", 4359222699539.966, 0.5), event("b", 4359222699540.001, 0.25)])
    assert trace.events.start_seconds[1] == pytest.approx(35e-9, rel=1e-12)
    assert trace.events.seconds(1) == pytest.approx(250e-9, rel=1e-9)


def test_equal_instants_of_one_clock_compare_equal(tmp_path: Path):
    trace = timeline(tmp_path, [event("a", 100.1, 0.2), event("b", 100.3, 1)])
    assert trace.events.end_seconds[0] == trace.events.start_seconds[1]


def test_columns_hold_what_the_file_says_and_none_where_it_says_nothing(tmp_path: Path):
    trace = timeline(
        tmp_path,
        [
            event("aten::mm", 1, 9, External_id=5, Record_function_id=6, Sequence_number=7),
            launch(2, 1, 11),
            kernel("gemm", 8, 3, 11, stream=20, grid=[2, 3, 4], block=[128, 1, 1]),
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
        ],
    )
    events = trace.events
    assert [events.category(row) for row in range(3)] == [
        Category.OPERATOR,
        Category.RUNTIME,
        Category.KERNEL,
    ]
    assert events.external_ids.tolist() == [5, NONE, NONE]
    assert events.record_function_ids.tolist() == [6, NONE, NONE]
    assert events.sequence_numbers.tolist() == [7, NONE, NONE]
    assert events.correlations.tolist() == [NONE, 11, 11]
    assert (events.streams.tolist(), events.devices.tolist()) == ([NONE, NONE, 20], [NONE, NONE, 0])
    assert events.threads.tolist() == [0, 0, NONE]
    assert events.threads_table == (Thread(1, 1, "main"),)


def test_equal_inputs_are_kept_once(tmp_path: Path):
    args = {
        "Input_Dims": [[2, 3], [[4], [5]], []],
        "Input_type": ["float", "TensorList", "Scalar"],
        "Concrete_Inputs": ["", "", "1"],
    }
    trace = timeline(tmp_path, [event("a", 1, 1, **args), event("b", 3, 1, **args), event("c", 5, 1)])
    assert trace.events.inputs.tolist() == [0, 0, NONE]
    assert trace.events.inputs_of(0) == OperatorInputs(
        ((2, 3), ((4,), (5,)), ()), ("float", "TensorList", "Scalar"), (), ("", "", "1")
    )


def test_steps_and_platform_are_found(tmp_path: Path):
    steps = [event(f"ProfilerStep#{n}", 100 * n, 90, category="user_annotation") for n in (3, 4)]
    trace = timeline(tmp_path, [*steps, launch(310, 5, 1, "hipLaunchKernel")])
    assert [(step.number, round(step.seconds * 1e6)) for step in trace.steps] == [(3, 90), (4, 90)]
    assert trace.platform == "rocm"
    assert timeline(tmp_path, [launch(310, 5, 1)]).platform == "cuda"
    assert timeline(tmp_path, steps).platform == "cpu"


def test_forward_and_backward_are_joined_by_arrows(tmp_path: Path):
    arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 9, "pid": 1}
    trace = timeline(
        tmp_path,
        [
            event("aten::mm", 10, 5),
            event("MmBackward0", 30, 5, thread=2),
            {**arrow, "ph": "s", "tid": 1, "ts": 10},
            {**arrow, "ph": "f", "tid": 2, "ts": 30, "bp": "e"},
        ],
    )
    assert trace.forward_backward.tolist() == [[0, 1]]


def test_ranks_come_in_order_and_twice_the_same_is_refused(tmp_path: Path):
    def rank(number: int, name: str) -> Path:
        info = {"rank": number, "world_size": 2, "backend": "nccl"}
        return write(tmp_path / name, document([event("a", 1, 1)], distributedInfo=info))

    traces = read_ranks([rank(1, "a.json"), rank(0, "b.json.gz")])
    assert [(trace.rank, trace.world_size, trace.backend) for trace in traces] == [
        (0, 2, "nccl"),
        (1, 2, "nccl"),
    ]
    with pytest.raises(TraceError, match=r"'a\.json' and 'c\.json' are both of rank 1"):
        read_ranks([tmp_path / "a.json", rank(1, "c.json")])


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("a.rank1.170.json", "a.rank0.171.json"), (1, 0)),
        (("worker4_step_12.53.json", "worker6_step_12.47.json"), (4, 6)),
        (("dlrm.0.json", "dlrm.1.json"), (0, 1)),
        (("rank0.kineto.json", "rank0.linked.json"), None),
        (("before3.json", "after7.json"), None),
    ],
)
def test_ranks_that_no_file_says_are_those_of_their_names(tmp_path: Path, names, ranks):
    paths = [write(tmp_path / name, document([event("a", 1, 1)])) for name in names]
    if ranks is None:
        with pytest.raises(TraceError, match="both of rank 0: give one timeline for each rank, with names"):
            read_ranks(paths)
    else:
        found = {trace.source: trace for trace in read_ranks(paths)}
        assert tuple(found[name].rank for name in names) == ranks
        assert {trace.world_size for trace in found.values()} == {max(2, max(ranks) + 1)}


def test_groups_collectives_devices_and_synchronisations_are_read(tmp_path: Path):
    collective = {
        "Collective_name": "allreduce",
        "In_msg_nelems": 10,
        "Out_msg_nelems": 10,
        "Group_size": 4,
        "dtype": "Float",
        "Process_Group_Name": "3",
        "Process_Group_Ranks": "[0, 2, ...]",
        "In_split_size": "[]",
    }
    wait = {
        "cuda_sync_kind": "Stream Wait Event",
        "stream": 7,
        "wait_on_stream": 8,
        "wait_on_cuda_event_record_corr_id": 5,
        "wait_on_cuda_event_id": 1,
    }
    trace = timeline(
        tmp_path,
        [
            kernel("ncclDevKernel_AllReduce", 5, 9, 3, **collective),
            {**kernel("wait", 9, 1, 4), "cat": "cuda_sync", "args": wait},
        ],
        deviceProperties=[
            {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 5, "numSms": 132, "warpSize": 32}
        ],
    )
    (collective,) = trace.collectives
    assert (collective.name, collective.dtype, collective.ranks) == ("allreduce", "float32", (0, 2, 4, 6))
    assert trace.process_groups[0].ranks == (0, 2, 4, 6)
    (synchronization,) = trace.synchronizations
    assert (synchronization.kind, synchronization.waits_for_stream) == ("Stream Wait Event", 8)
    assert synchronization.wait_correlation == 5
    assert (trace.devices[0].name, trace.devices[0].num_multiprocessors) == ("NVIDIA H100", 132)
    assert trace.devices[0].other == {"warpSize": 32}


def test_the_array_of_events_alone_is_a_trace(tmp_path: Path):
    trace = read_kineto(write(tmp_path / "array.json", [event("a", 1, 1)]))
    assert len(trace.events) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nodes": [{"id": 1}], "schema": "1.1.1"}, "is no timeline trace: it is an execution trace"),
        ({"profile": 1}, r"it has no 'traceEvents' \(it has: profile\)"),
        (document([]), "holds no event with a duration"),
        (document([event("x", 1, 1, category="blink.user_timing")]), "the trace of another tool"),
        (document([event("x", -5, 1)]), r"negative.*'ts': -5"),
        (document([event("x", 5, -1)]), "negative"),
        (document([event("x", 1e300, 1)]), "impossibly large"),
        (document([event("x", 10**18, 1)]), "impossibly large"),
        (document([event("x", 5, 1), event("y", 5e14, 1)]), r"span 15\.8 years"),
        (document([{"ph": "X", "cat": "cpu_op", "name": "x", "dur": 1}]), "it lacks 'ts'"),
        (document([{**event("x", 1, 1), "name": 7}]), "a name that is not text"),
        (document([{**event("x", 1, 1), "ts": "soon"}]), "an event that makes no sense"),
        (document([[1, 2]]), "an event that is not an object"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_such_trace_is_named(tmp_path: Path, content: Any, message: str):
    with pytest.raises(TraceError, match=message):
        read_kineto(write(tmp_path / "file.json", content))


def test_many_small_events_are_given_up_in_bounded_memory(tmp_path: Path):
    path = write(tmp_path / "many.json", document([event("a", i, 1) for i in range(300)]))
    assert len(read_kineto(path, max_bytes=300 * 256).events) == 300
    with pytest.raises(TraceError, match=r"more events than the 299 .*--max-bytes"):
        read_kineto(path, max_bytes=300 * 256 - 1)


def test_names_that_never_repeat_are_given_up(tmp_path: Path):
    path = write(tmp_path / "names.json", document([event(f"{i:0200}", i, 1) for i in range(100)]))
    with pytest.raises(TraceError, match="impossible number of different names"):
        read_kineto(path, max_bytes=100_000)


def test_a_truncated_trace_is_refused_or_read_with_a_warning(tmp_path: Path):
    text = json.dumps(document([event("a", 1, 1), event("b", 2, 1)]))
    path = write(tmp_path / "cut.json", text[:-20].encode())
    with pytest.raises(TraceError, match="truncated"):
        read_kineto(path)
    trace = read_kineto(path, is_truncated_allowed=True)
    assert len(trace.events) == 1
    assert "truncated" in trace.warnings[0]


odd = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
)
arguments = st.dictionaries(
    st.sampled_from(
        [
            "External id",
            "correlation",
            "stream",
            "device",
            "Input Dims",
            "Input type",
            "grid",
            "Concrete Inputs",
            "Collective name",
            "Process Group Ranks",
            "Group size",
            "In split size",
            "cuda_sync_kind",
            "bytes",
        ]
    ),
    odd,
)
fuzzed_event = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "M", "s", "f", "i"]),
        "name": odd | st.just("ProfilerStep#1"),
        "ts": odd,
        "dur": odd,
        "pid": odd,
        "tid": odd,
        "id": odd,
        "args": arguments | odd,
        "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "cuda_sync", "fwdbwd", "user_annotation"])
        | odd,
    },
)
fuzzed = st.fixed_dictionaries(
    {"traceEvents": st.lists(fuzzed_event | odd, max_size=4)},
    optional={
        "distributedInfo": odd | st.fixed_dictionaries({"rank": odd, "world_size": odd, "pg_config": odd}),
        "deviceProperties": odd | st.lists(st.fixed_dictionaries({"id": odd, "name": odd}), max_size=2),
    },
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fuzzed)
def test_nonsense_in_the_right_shape_is_read_or_refused(tmp_path: Path, content: dict[str, Any]):
    path = tmp_path / "fuzzed.json"
    path.write_text(json.dumps(content))
    with contextlib.suppress(TraceError):
        trace = read_kineto(path)
        assert np.all(trace.events.end_seconds >= trace.events.start_seconds)


def test_the_words_of_the_first_kineto_are_those_of_today(tmp_path: Path):
    today = two_kernels().as_dict()
    words = {
        "cpu_op": "Operator",
        "user_annotation": "Operator",
        "cuda_runtime": "Runtime",
        "kernel": "Kernel",
    }
    first = {**today, "traceEvents": [{**e, "cat": words[e["cat"]]} for e in today["traceEvents"]]}
    path = tmp_path / "first.json"
    path.write_text(json.dumps(first))
    found, known = read_kineto(path), two_kernels().read(tmp_path)
    assert [step.number for step in found.steps] == [step.number for step in known.steps]
    is_marked = known.events.categories == Category.ANNOTATION
    assert (found.events.categories == known.events.categories)[~is_marked].all()


def test_a_last_mark_in_which_nothing_began_is_no_step(tmp_path: Path):
    recording = two_kernels()
    recording.step(2, 100, 5)
    assert [step.number for step in recording.read(tmp_path).steps] == [1]
    recording.operator("aten::mm", 101, 2)
    assert [step.number for step in recording.read(tmp_path).steps] == [1, 2]
