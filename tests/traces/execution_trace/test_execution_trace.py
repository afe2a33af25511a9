from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_up_traces import execution_document, execution_trace, node, tensor, write
from perfcast.errors import TraceError
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Opaque, TensorUse, tensors_in
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.execution_trace.values import split_types

FLOAT = "Tensor(float)"


def use(trace: ExecutionTrace, node_id: int, *, output: bool = False) -> TensorUse:
    found = trace.node(node_id)
    return next(tensors_in(found.outputs if output else found.inputs))


def empty(node_id: int, tensor_id: int, storage_id: int, shape: list[int], size: int = 4) -> dict[str, Any]:
    return node(
        node_id, "aten::empty", outputs=[(tensor(tensor_id, storage_id, shape, size=size), FLOAT, shape)]
    )


def test_values_are_read_by_their_types(tmp_path: Path):
    inputs: list[tuple[Any, str, Any]] = [
        (tensor(5, 6, [2, 3]), "Tensor(c10::Half)", [2, 3]),
        (
            [tensor(7, 8, [1]), tensor(9, 8, [1])],
            "GenericList[Tensor(long int),Tensor(long int)]",
            [[1], [1]],
        ),
        ([1, 2], "GenericList[Int,Int]", [[], []]),
        ("<None>", "None", []),
        ("<Generator>", "Generator", []),
        ("-inf", "Double", []),
        (True, "Bool", []),
        ("inf", "String", []),
        ("cuda:0", "Device", []),
        (["0", "world"], "Tuple[String,String]", [[], []]),
    ]
    read = execution_trace(tmp_path, [node(3, "aten::op", inputs=inputs)]).node(3).inputs
    first = read[0]
    assert isinstance(first, TensorUse)
    assert (first.dtype, first.shape, first.strides) == ("float16", (2, 3), None)
    assert [use.dtype for use in tensors_in(read[1:2])] == ["int64", "int64"]
    assert read[2:] == (
        (1, 2),
        None,
        Opaque("Generator"),
        float("-inf"),
        True,
        "inf",
        "cuda:0",
        ("0", "world"),
    )


def test_the_flat_layout_of_the_first_version_gives_the_same_node(tmp_path: Path):
    flat = {
        "name": "aten::add",
        "id": 3,
        "rf_id": 9,
        "parent": 2,
        "fw_parent": 0,
        "seq_id": 4,
        "scope": 0,
        "tid": 1,
        "fw_tid": 0,
        "op_schema": "aten::add(Tensor a) -> Tensor",
        "inputs": [[5, 6, 0, 2, 4, "cpu"]],
        "input_shapes": [[2]],
        "input_types": [FLOAT],
        "outputs": [],
        "output_shapes": [],
        "output_types": [],
    }
    old = execution_trace(tmp_path, [flat], "1.0.1").node(3)
    new = node(
        3, "aten::add", inputs=[(tensor(5, 6, [2]), FLOAT, [2])], schema=flat["op_schema"], rf_id=9, seq_id=4
    )
    assert old == execution_trace(tmp_path, [new], "1.0.3-chakra.0.0.4").node(3)


def test_types_are_cut_at_outer_commas_only():
    assert split_types("Tensor(long int),GenericList[Int,Int],Tensor(c10::complex<float>)") == [
        "Tensor(long int)",
        "GenericList[Int,Int]",
        "Tensor(c10::complex<float>)",
    ]
    assert split_types("") == []


def test_a_storage_id_given_again_is_another_storage(tmp_path: Path):
    trace = execution_trace(
        tmp_path,
        [
            empty(3, 10, 11, [100]),
            node(
                4,
                "aten::fill_",
                inputs=[(tensor(10, 11, [100]), FLOAT, [100])],
                outputs=[(tensor(10, 11, [100]), FLOAT, [100])],
            ),
            empty(5, 12, 11, [8]),
            node(6, "aten::fill_", inputs=[(tensor(12, 11, [8]), FLOAT, [8])]),
        ],
    )
    assert use(trace, 3, output=True).storage == use(trace, 4).storage == use(trace, 4, output=True).storage
    assert use(trace, 6).storage == use(trace, 5, output=True).storage != use(trace, 4).storage
    assert [(s.num_bytes, s.maker, s.first_node, s.last_node) for s in trace.storages] == [
        (400, 3, 3, 4),
        (32, 5, 5, 6),
    ]


def test_views_share_a_storage_and_callers_do_not_make_what_their_callees_made(tmp_path: Path):
    made = (tensor(10, 11, [4, 4]), FLOAT, [4, 4])
    trace = execution_trace(
        tmp_path,
        [
            node(3, "aten::zeros", outputs=[made]),
            node(4, "aten::empty", 3, outputs=[made]),
            node(5, "aten::t", inputs=[made], outputs=[(tensor(12, 11, [4, 4]), FLOAT, [4, 4])]),
        ],
    )
    assert len(trace.storages) == 1
    assert trace.storages[0].maker == 4
    assert use(trace, 3, output=True).storage == use(trace, 5, output=True).storage == 0


def test_memory_from_before_the_recording_has_no_maker(tmp_path: Path):
    trace = execution_trace(tmp_path, [node(3, "aten::sum", inputs=[(tensor(10, 11, [5]), FLOAT, [5])])])
    assert [(storage.num_bytes, storage.maker) for storage in trace.storages] == [(20, NONE)]


def test_sizes_count_offsets_in_elements_and_follow_strides(tmp_path: Path):
    view = tensor(10, 11, [2, 3], offset=5)
    reader = node(3, "aten::sum", inputs=[(view, FLOAT, [2, 3])])
    reader["inputs"]["strides"] = [[10, 2]]
    trace = execution_trace(tmp_path, [reader])
    assert trace.storages[0].num_bytes == (5 + 1 + 1 * 10 + 2 * 2) * 4


def test_expanded_tensors_do_not_inflate_their_storage(tmp_path: Path):
    small, large = (tensor(10, 11, [1]), FLOAT, [1]), (tensor(12, 11, [1000]), FLOAT, [1000])
    trace = execution_trace(
        tmp_path, [empty(3, 10, 11, [1]), node(4, "aten::expand", inputs=[small], outputs=[large])], "1.1.0"
    )
    assert [storage.num_bytes for storage in trace.storages] == [4]


def test_collectives_return_what_others_made(tmp_path: Path):
    buffer = (tensor(10, 11, [6]), FLOAT, [6])
    record = node(
        5,
        "record_param_comms",
        4,
        schema="",
        inputs=[
            (tensor(20, 21, [6]), FLOAT, [6]),
            (7, "Int", []),
            (["3", "d"], "Tuple[String,String]", [[], []]),
            (0, "Int", []),
            ("all_to_allv", "String", []),
            ([2, 4], "GenericList[Int,Int]", [[], []]),
            ([3, 3], "GenericList[Int,Int]", [[], []]),
            (4, "Int", []),
            (2, "Int", []),
            (2, "Int", []),
        ],
        outputs=[buffer],
    )
    trace = execution_trace(
        tmp_path, [empty(3, 10, 11, [6]), node(4, "c10d::alltoall_base_", inputs=[buffer]), record]
    )
    assert use(trace, 5, output=True).storage == use(trace, 3, output=True).storage
    (collective,) = trace.collectives
    assert (collective.row, collective.name, collective.sequence, collective.group) == (
        5,
        "all_to_allv",
        7,
        "3",
    )
    assert (collective.in_splits, collective.out_splits, collective.ranks) == ((2, 4), (3, 3), (4, 6))
    assert (collective.in_elements, collective.out_elements, collective.dtype) == (6, 6, "float32")


def test_a_collective_that_names_no_group_is_in_the_only_one(tmp_path: Path):
    groups = json.dumps(
        [{"pg_name": "0", "pg_desc": "d", "backend_config": "cpu:gloo", "ranks": [], "group_size": 2}]
    )
    trace = execution_trace(
        tmp_path,
        [
            node(3, "## process_group:init ##", inputs=[(groups, "String", [])]),
            node(
                4, "c10d::allreduce_", inputs=[([tensor(10, 11, [6])], "GenericList[Tensor(float)]", [[6]])]
            ),
        ],
    )
    assert [(c.group, c.group_size, c.ranks, c.in_elements) for c in trace.collectives] == [
        ("0", 2, (0, 1), 6)
    ]


def test_ranges_of_recorded_values_are_read(tmp_path: Path):
    reader = node(3, "aten::embedding", tensor_range='{"1": [0, 99], "x": [1], "2": ["a", 5]}')
    assert execution_trace(tmp_path, [reader]).node(3).tensor_ranges == {1: (0, 99)}


def test_a_node_whose_caller_is_missing_hangs_on_the_process(tmp_path: Path):
    trace = execution_trace(tmp_path, [node(9, "aten::op", 7)])
    assert trace.node(9).parent == 1
    assert trace.warnings == ("1 nodes have parents that are not in the file",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"traceEvents": [{"ph": "X"}]}, "it is a timeline trace"),
        ({"a": 1}, "it has no 'nodes'"),
        (execution_document([], "2.0.0"), r"has schema 2\.0\.0; 1\.0\.1 to 1\.1\.1 are read"),
        (execution_document([], "one"), "its schema is 'one'"),
        ({"schema": "1.1.1", "nodes": []}, "holds no node"),
        (execution_document([node(3, "a"), node(3, "b")]), "two nodes of id 3"),
        (execution_document([node(3, "a", 4), node(4, "b", 3)]), "in a circle: 3 → 4 → 3"),
        (execution_document([node(-3, "a")]), "its id is -3"),
        (
            execution_document([node(3, "a", inputs=[([1, 2], FLOAT, [2])])]),
            r"node 3 \(a\): a tensor that makes no sense",
        ),
        (
            execution_document([node(3, "a", inputs=[([1], "GenericList[Int,Int]", [])])]),
            "1 values with 2 types",
        ),
        (execution_document([{"id": 3, "name": "a"}, 5]), "a node that is not an object"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_execution_trace_is_named(tmp_path: Path, content: Any, message: str):
    with pytest.raises(TraceError, match=message):
        read_execution_trace(write(tmp_path / "file.json", content))


def test_a_deep_chain_of_calls_is_read_in_good_time(tmp_path: Path):
    trace = execution_trace(tmp_path, [node(i, "a", i - 1) for i in range(3, 8_000)])
    assert len(trace.nodes) == 7_999


odd = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=6)
kinds = (
    st.sampled_from(
        [FLOAT, "Int", "GenericList[Int]", "GenericList[Tensor(int)]", "String", "Tuple[", "Device"]
    )
    | odd
)
side = odd | st.fixed_dictionaries(
    {},
    optional={
        "values": st.lists(odd | st.just([1, 2, 0, 3, 4, "cpu"]), max_size=2),
        "types": st.lists(kinds, max_size=2),
        "shapes": odd | st.lists(odd, max_size=2),
        "strides": odd | st.lists(odd, max_size=2),
    },
)
fuzzed_node = odd | st.fixed_dictionaries(
    {"id": st.integers(0, 4) | odd},
    optional={
        "name": odd | st.sampled_from(["record_param_comms", "c10d::allreduce_", "## process_group:init ##"]),
        "ctrl_deps": st.integers(0, 4) | odd,
        "inputs": side,
        "outputs": side,
        "attrs": odd
        | st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["op_schema", "rf_id", "tid"]), "value": odd}),
            max_size=2,
        ),
    },
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(fuzzed_node, max_size=4))
def test_nonsense_in_the_right_shape_is_read_or_refused(tmp_path: Path, nodes: list[Any]):
    path = tmp_path / "fuzzed.json"
    path.write_text(json.dumps({"schema": "1.1.1", "nodes": nodes}))
    with contextlib.suppress(TraceError):
        read_execution_trace(path)
