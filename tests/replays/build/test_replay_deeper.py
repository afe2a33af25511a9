"""Operators in whose place what they called is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ExecutionTraceObserver

from made_up_traces import execution_trace, node, tensor
from perfcast.replays.build.build import build_program
from perfcast.replays.build.deeper import count_hidden_graphs
from perfcast.traces.execution_trace.reader import read_execution_trace

FLOAT = "Tensor(float)"
RELU = "aten::relu(Tensor self) -> Tensor"
EMPTY = "aten::empty_like(Tensor self) -> Tensor"


def one_to_one(
    node_id: int, schema: str, source: int, result: int, size: int, parent: int = 2, kind: str = FLOAT
) -> dict[str, Any]:
    """An operator that makes one vector of another; storages have the tensors' numbers."""
    return node(
        node_id,
        schema.partition("(")[0],
        parent,
        inputs=[(tensor(source, source + 1000, [size]), kind, [size])],
        outputs=[(tensor(result, result + 1000, [size]), kind, [size])],
        schema=schema,
    )


def played(folder: Path, nodes: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Node and first size of every call."""
    program = build_program(execution_trace(folder, nodes))
    return [(call.operator, program.slots[call.outputs[0]].shape[0]) for call in program.calls]


@pytest.mark.parametrize("label", ["PythonSubclass", "PythonDispatchMode"])
def test_what_python_took_over_is_played_with_the_tensors_that_are_there(tmp_path: Path, label: str):
    nodes = [
        one_to_one(3, "aten::hardswish(Tensor self) -> Tensor", 10, 11, 64),
        one_to_one(4, RELU, 10, 11, 64, parent=3),
        node(5, label, 4),
        one_to_one(6, RELU, 20, 21, 8, parent=5),
    ]
    assert played(tmp_path, nodes) == [("aten::relu", 8)]


CUSTOM = "mine::double(Tensor self) -> Tensor"


def test_an_operator_of_a_library_is_played_as_the_known_ones_that_made_its_result(tmp_path: Path):
    nodes = [one_to_one(3, CUSTOM, 10, 11, 8), one_to_one(4, RELU, 10, 11, 8, parent=3)]
    assert played(tmp_path, nodes) == [("aten::relu", 8)]


def test_an_operator_with_a_kernel_of_its_own_is_left_out_by_name(tmp_path: Path):
    nodes = [
        one_to_one(3, CUSTOM, 10, 11, 8),
        one_to_one(4, EMPTY, 10, 11, 8, parent=3),
        one_to_one(5, RELU, 10, 12, 8),
    ]
    program = build_program(execution_trace(tmp_path, nodes))
    assert [one.operator for one in program.skipped] == ["mine::double"]
    assert [call.operator for call in program.calls] == ["aten::relu"]


def test_an_operator_that_calls_itself_with_other_sizes_is_played_itself(tmp_path: Path):
    schema = "aten::zeros(SymInt[] size) -> Tensor"
    nodes = [
        node(
            number,
            "aten::zeros",
            parent,
            inputs=[([8] * count, f"GenericList[{kinds}]", [[]] * count)],
            outputs=[(tensor(10 + number, 1010 + number, [8]), FLOAT, [8])],
            schema=schema,
        )
        for number, parent, count, kinds in ((3, 2, 1, "Int"), (4, 3, 2, "Int,Int"))
    ]
    program = build_program(execution_trace(tmp_path, nodes))
    assert [call.node_id for call in program.calls] == [3]


def test_compiled_graphs_without_a_recorded_kernel_are_counted(tmp_path: Path):
    nodes = [
        node(3, "## Call CompiledFxGraph abc ##"),
        one_to_one(4, RELU, 10, 11, 8, parent=3),
        node(5, "## Call CompiledFxGraph def ##"),
        one_to_one(6, RELU, 11, 12, 8),
    ]
    assert count_hidden_graphs(execution_trace(tmp_path, nodes)) == 2


def test_what_ran_under_autocast_is_played_in_the_type_it_ran_in(tmp_path: Path):
    path = tmp_path / "step.json"
    weight, given = torch.rand(8, 8), torch.rand(4, 8)
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.nn.functional.linear(given, weight)
    observer.stop()
    observer.unregister_callback()
    program = build_program(read_execution_trace(path))
    names = [call.operator for call in program.calls]
    assert "aten::linear" in names
    product = program.calls[names.index("aten::linear")]
    assert program.slots[product.outputs[0]].dtype == "bfloat16"
    assert {slot.dtype for slot in program.slots} == {"float32", "bfloat16"}
    assert names.count("aten::to") == 2
