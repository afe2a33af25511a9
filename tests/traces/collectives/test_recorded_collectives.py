from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_up_traces import event, kernel, launch, timeline
from perfcast.traces.collectives.groups import groups_of, ranks_in
from perfcast.traces.collectives.matching import match
from perfcast.traces.collectives.recorded import recorded_collectives
from perfcast.traces.collectives.sizes import find_collectives
from perfcast.traces.events import NONE, Collective, Trace
from perfcast.traces.link.kernels import link_kernels, nest


@pytest.mark.parametrize(
    ("text", "size", "ranks"),
    [
        ("[0, 1, 2]", 3, (0, 1, 2)),
        ("[0, 8, 16, ...]", 5, (0, 8, 16, 24, 32)),
        ("[4, 5, ..., 11]", 8, (4, 5, 6, 7, 8, 9, 10, 11)),
        ("[0, 1, ..., 9]", 8, ()),
        ("[0, 1, 5, ...]", 8, ()),
        ("[0, ...]", 8, ()),
        ([3, 1], 2, (3, 1)),
        (None, 2, ()),
    ],
)
def test_ranks_cut_short_are_continued_by_their_stride_or_not_at_all(
    text: object, size: int, ranks: tuple[int, ...]
):
    assert ranks_in(text, size) == ranks


def test_groups_without_ranks_are_of_all_and_collectives_name_others():
    told = Collective(1, "allreduce", 1, 1, "float32", "7", 2, ranks=(4, 5))
    groups = groups_of([{"pg_name": "0", "pg_desc": "default", "pg_size": 3, "ranks": []}], [told])
    assert [(group.name, group.ranks) for group in groups] == [("0", (0, 1, 2)), ("7", (4, 5))]


def nccl(folder: Path, rank: int, names: list[str]) -> Trace:
    args = {"In_msg_nelems": 4, "Out_msg_nelems": 4, "Group_size": 2, "dtype": "Float",
            "Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1]"}  # fmt: skip
    events = []
    for i, name in enumerate(names):
        start = 100 * i
        events += [
            event("record_param_comms", start, 20, Collective_name=name, **args),
            launch(start + 5, 2, i),
            kernel(f"ncclDevKernel_{name}", start + 50, 10 + rank, i, Collective_name=name, **args),
        ]
    info = {"rank": rank, "world_size": 2, "backend": "nccl"}
    return timeline(folder, events, distributedInfo=info)


def matched(traces: list[Trace]) -> list[list[tuple[int, str]]]:
    """(rank, name) of each member of each instance."""
    found = []
    for trace in traces:
        nesting = nest(trace.events)
        found.append(find_collectives(trace, link_kernels(trace.events, nesting), nesting.parents))
    instances = match([[one.part for one in collectives] for collectives in found])
    return [[(rank, found[rank][place].name) for rank, place in one.members] for one in instances]


def test_the_same_collective_is_matched_by_group_and_place(tmp_path: Path):
    traces = [nccl(tmp_path, rank, ["allreduce", "allreduce", "broadcast"]) for rank in (0, 1)]
    assert matched(traces) == [
        [(0, "all_reduce"), (1, "all_reduce")],
        [(0, "all_reduce"), (1, "all_reduce")],
        [(0, "broadcast"), (1, "broadcast")],
    ]
    first, *_ = recorded_collectives(traces[1])
    assert (traces[1].events.name(first.host_row), len(first.work_rows)) == ("record_param_comms", 1)


def test_a_collective_that_a_rank_did_not_record_is_left_out(tmp_path: Path):
    traces = [nccl(tmp_path, 0, ["allreduce"] * 2), nccl(tmp_path, 1, ["allreduce"])]
    assert matched(traces) == [[(0, "all_reduce"), (1, "all_reduce")]]


def test_gloo_is_told_by_its_operators_and_runs_in_ranges_on_its_own_threads(tmp_path: Path):
    listed = {"Input_Dims": [[[30], [4]], []], "Input_type": ["TensorList", ""]}
    split = {
        "Input_Dims": [[6], [8], [], [], []],
        "Input_type": ["float", "float", "", "ScalarList", "ScalarList"],
        "Concrete_Inputs": ["", "", "", "[2, 4]", "[5, 3]"],
    }
    trace = timeline(
        tmp_path,
        [
            event("c10d::allreduce_", 0, 5, **listed),
            event(
                "gloo:all_reduce",
                3,
                90,
                category="user_annotation",
                thread=2,
                Input_Dims=[[34]],
                Input_type=["float"],
            ),
            event("c10d::alltoall_base_", 10, 5, **split),
            event(
                "gloo:all_to_all",
                12,
                20,
                category="user_annotation",
                thread=3,
                Input_Dims=[[8]],
                Input_type=["float"],
            ),
        ],
        distributedInfo={
            "rank": 0,
            "world_size": 2,
            "pg_config": [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}],
        },
    )
    reduced, exchanged = recorded_collectives(trace)
    assert (reduced.collective.in_elements, reduced.collective.dtype, reduced.collective.ranks) == (
        34,
        "float32",
        (0, 1),
    )
    assert (exchanged.collective.out_elements, exchanged.collective.in_elements) == (6, 8)
    assert (exchanged.collective.in_splits, exchanged.collective.out_splits) == ((5, 3), (2, 4))
    names = [[trace.events.name(row) for row in one.work_rows] for one in (reduced, exchanged)]
    assert names == [["gloo:all_reduce"], ["gloo:all_to_all"]]


def test_gathers_and_scatters_of_shards_are_told_from_gloos_names(tmp_path: Path):
    trace = timeline(
        tmp_path,
        [
            event("c10d::_allgather_base_", 0, 5),
            event("gloo:all_gather", 3, 20, category="user_annotation", thread=2),
            event("c10d::_reduce_scatter_base_", 40, 5),
            event("gloo:all_reduce", 43, 20, category="user_annotation", thread=2),
        ],
    )
    found = [
        (one.collective.name, trace.events.name(one.work_rows[0])) for one in recorded_collectives(trace)
    ]
    assert found == [("_allgather_base", "gloo:all_gather"), ("_reduce_scatter_base", "gloo:all_reduce")]


def test_a_kernel_whose_operator_was_not_recorded_is_a_collective_of_its_own(tmp_path: Path):
    trace = timeline(
        tmp_path, [kernel("ncclDevKernel_AllReduce", 5, 5, 1, Collective_name="allreduce", Group_size=2)]
    )
    (part,) = recorded_collectives(trace)
    assert (part.host_row, part.work_rows) == (NONE, (0,))


def test_groups_named_by_an_address_match_across_ranks(tmp_path: Path):
    traces = [nccl(tmp_path, rank, ["allreduce"]) for rank in (0, 1)]
    renamed = [
        replace(t, collectives=tuple(replace(c, group=str(2**40 + t.rank), ranks=()) for c in t.collectives))
        for t in traces
    ]
    assert matched(renamed) == [[(0, "all_reduce"), (1, "all_reduce")]]
