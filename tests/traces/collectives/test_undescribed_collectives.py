from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_up_traces import event, kernel, launch, timeline
from perfcast.traces.collectives.recorded import RecordedCollective, recorded_collectives
from perfcast.traces.collectives.sizes import canonical_name, find_collectives
from perfcast.traces.events import NONE, Trace
from perfcast.traces.link.kernels import link_kernels, nest

SHAPE: dict[str, Any] = {"Input_Dims": [[600]], "Input_type": ["float"]}
LISTED: dict[str, Any] = {"Input_Dims": [[], [], [], []], "Input_type": ["TensorList", "Scalar", "", ""]}
WORLD = {"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}]}


def mark(name: str, start: float, category: str = "user_annotation", **args: Any) -> dict[str, Any]:
    return event(name, start, 20, category=category, **args)


def recorded(folder: Path, host: list[dict[str, Any]], name: str, **header: Any) -> Trace:
    """What the host recorded around the launch of a kernel at 30 µs."""
    carried = kernel(f"{name}_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", 100, 40, 1)
    return timeline(folder, [*host, launch(30, 5, 1), carried], **{"distributedInfo": WORLD, **header})


def the_only(trace: Trace) -> RecordedCollective:
    (part,) = recorded_collectives(trace)
    assert [trace.events.name(row)[:10] for row in part.work_rows] == ["ncclKernel"]
    return part


#: What different versions of PyTorch leave on the host of one all-to-all.
WAYS: dict[str, list[dict[str, Any]]] = {
    "operator, record and mark (2.0)": [
        event(
            "c10d::alltoall_base_", 10, 50, Input_Dims=[[600], [600], []], Input_type=["float", "float", ""]
        ),
        event("record_param_comms", 12, 45, **LISTED),
        mark("nccl:all_to_all", 20, **SHAPE),
    ],
    "record and mark (1.13)": [
        event("record_param_comms", 12, 45, **LISTED),
        mark("nccl:all_to_all", 20, **SHAPE),
    ],
    "the record has the shape (1.12)": [
        event("record_param_comms", 12, 45, **SHAPE),
        mark("nccl:all_to_all", 20),
    ],
    "mark (1.9)": [mark("nccl:all_to_all", 20, **SHAPE)],
    "mark among the operators (1.8)": [mark("nccl:all_to_all", 20, "cpu_op", **SHAPE)],
    "mark of RCCL": [mark("rccl:all_to_all", 20, **SHAPE)],
    "operator of an engine": [event("vllm::all_to_all", 10, 50, **SHAPE)],
}


@pytest.mark.parametrize("host", WAYS.values(), ids=WAYS)
def test_an_all_to_all_is_one_however_its_host_recorded_it(
    tmp_path: Path, host: list[dict[str, Any]]
) -> None:
    trace = recorded(tmp_path, host, "ncclKernel_SendRecv")
    part = the_only(trace)
    told = part.collective
    assert (canonical_name(told.name), told.in_elements, told.dtype) == ("all_to_all", 600, "float32")
    assert (told.group, told.ranks) == ("0", (0, 1))
    assert part.host_row != NONE


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclKernel_SendRecv", "all_to_all"),
        ("ncclDevKernel_AllReduce_Sum_f32", "all_reduce"),
        ("ncclKernel_AllGather", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16", "reduce_scatter"),
        ("ncclKernel_Reduce", "reduce"),
        ("rcclKernel_AllToAllPivot", "all_to_all"),
        ("hcom_allReduce__123_0_1", "all_reduce"),
        ("void vllm::cross_device_reduce_1stage<float, 8>", "all_reduce"),
    ],
)
def test_a_kernel_alone_is_told_by_its_name(tmp_path: Path, name: str, expected: str) -> None:
    trace = timeline(tmp_path, [launch(30, 5, 1), kernel(name, 100, 40, 1)], distributedInfo=WORLD)
    (part,) = recorded_collectives(trace)
    assert canonical_name(part.collective.name) == expected
    assert (part.collective.in_elements, part.collective.ranks, part.host_row) == (0, (0, 1), NONE)


def test_the_range_above_a_kernel_tells_what_it_is(tmp_path: Path) -> None:
    above = event(
        "nccl:all_reduce", 99, 42, category="gpu_user_annotation", process=0, thread=7, device=0, stream=7
    )
    trace = timeline(tmp_path, [launch(30, 5, 1), kernel("ncclDevKernel_Generic", 100, 40, 1), above])
    (part,) = recorded_collectives(trace)
    assert part.collective.name == "all_reduce"


@pytest.mark.parametrize(
    ("word", "peer"), [("nccl:recv 0<-1", 1), ("nccl:send 0->1", 1), ("nccl:recv", NONE)]
)
def test_a_message_names_its_other_rank_in_its_mark(tmp_path: Path, word: str, peer: int) -> None:
    info = WORLD | {"world_size": 4, "pg_config": [{"pg_name": "0", "pg_size": 4, "ranks": [0, 1, 2, 3]}]}
    host = [mark(word, 20, **SHAPE)]
    part = the_only(recorded(tmp_path, host, "ncclKernel_SendRecv", distributedInfo=info))
    assert (part.collective.is_message, part.collective.peer) == (True, peer)


def test_of_two_ranks_a_message_is_with_the_other(tmp_path: Path) -> None:
    part = the_only(recorded(tmp_path, [mark("nccl:recv", 20)], "ncclKernel_SendRecv"))
    assert (part.collective.peer, part.collective.in_elements) == (1, 0)


def test_gathered_parts_tell_how_many_ranks_there_are_and_which(tmp_path: Path) -> None:
    shapes = {"Input_Dims": [[2400], [600], []], "Input_type": ["float", "float", ""]}
    groups = [
        {"pg_name": "0", "pg_size": 8, "ranks": list(range(8))},
        {"pg_name": "5", "pg_size": 4, "ranks": [0, 2, 4, 6]},
    ]
    info = {"rank": 0, "world_size": 8, "pg_config": groups}
    host = [event("c10d::_allgather_base_", 10, 50, **shapes)]
    part = the_only(recorded(tmp_path, host, "ncclKernel_AllGather", distributedInfo=info))
    assert (part.collective.group_size, part.collective.ranks) == (4, (0, 2, 4, 6))


def test_a_kernel_without_a_group_is_in_that_of_its_stream(tmp_path: Path) -> None:
    told = {"Collective_name": "allreduce", "In_msg_nelems": 4, "dtype": "Float", "Group_size": 2,
            "Process_Group_Name": "7", "Process_Group_Ranks": "[0, 4]"}  # fmt: skip
    groups = [{"pg_name": str(n), "pg_size": 2, "ranks": [0, n]} for n in (1, 7)]
    trace = timeline(
        tmp_path,
        [kernel("ncclDevKernel_AllReduce", 5, 5, 1, **told), kernel("ncclDevKernel_AllReduce", 15, 5, 2)],
        distributedInfo={"rank": 0, "world_size": 8, "pg_config": groups},
    )
    assert [part.collective.ranks for part in recorded_collectives(trace)] == [(0, 4), (0, 4)]


def described(name: str, start: float) -> list[dict[str, Any]]:
    told = {"In_msg_nelems": 4, "Out_msg_nelems": 4, "dtype": "Float", "Group_size": 2}
    return [
        event(f"c10d::{name}_", start, 8),
        event("record_param_comms", start + 1, 6, Collective_name=name, **told),
        mark(f"nccl:{name}", start + 2) | {"dur": 4},
    ]


def test_what_describes_itself_is_counted_once(tmp_path: Path) -> None:
    events = described("allreduce", 0) + described("broadcast", 10)
    names = [part.collective.name for part in recorded_collectives(timeline(tmp_path, events))]
    assert names == ["allreduce", "broadcast"]


def test_gloo_beside_described_collectives_is_asked_for_by_its_operators(tmp_path: Path) -> None:
    shape = {"Input_Dims": [[[30]]], "Input_type": ["TensorList"]}
    other = [
        event("c10d::allreduce_", 40, 5, **shape),
        event(
            "gloo:all_reduce", 42, 9, category="user_annotation", thread=2, **SHAPE | {"Input_Dims": [[30]]}
        ),
    ]
    trace = timeline(tmp_path, [*described("broadcast", 0), *other])
    found = [(part.collective.name, len(part.work_rows)) for part in recorded_collectives(trace)]
    assert found == [("broadcast", 0), ("allreduce", 1)]


def test_sizes_of_an_undescribed_all_to_all_are_those_of_its_mark(tmp_path: Path) -> None:
    trace = recorded(tmp_path, WAYS["mark (1.9)"], "ncclKernel_SendRecv")
    nesting = nest(trace.events)
    (timed,) = find_collectives(trace, link_kernels(trace.events, nesting), nesting.parents)
    assert (timed.name, timed.message_bytes, timed.group_size) == ("all_to_all", 2400, 2)


@pytest.mark.parametrize("together", [[], [event("record_param_comms", 27, 12, Collective_name="coalesced")]])
def test_messages_that_are_sent_together_share_their_kernel(
    tmp_path: Path, together: list[dict[str, Any]]
) -> None:
    told = {"In_msg_nelems": 9, "Out_msg_nelems": 9, "dtype": "Float", "Process_Group_Ranks": "[0, 1]",
            "Process_Group_Name": "0", "Group_size": 2, "Rank": 1}  # fmt: skip
    asked = [
        event("record_param_comms", 10 * place, 6, Collective_name=name, **told)
        for place, name in enumerate(("send", "recv"))
    ]
    trace = recorded(tmp_path, [*asked, *together], "ncclKernel_SendRecv")
    found = recorded_collectives(trace)
    assert [(one.collective.name, one.collective.peer, len(one.work_rows)) for one in found] == [
        ("send", 1, 1),
        ("recv", 1, 1),
    ]
