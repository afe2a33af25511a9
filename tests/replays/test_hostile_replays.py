"""Traces that want harm, from the file to the process that plays them: nothing of them is run as code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_up_traces import execution_document, execution_trace, node, tensor, write
from perfcast.cli.main import run
from perfcast.errors import TraceError
from perfcast.replays.build.build import build_program
from perfcast.replays.fill.fill import FillOptions, recorded_folder
from perfcast.replays.play.limits import ReplayLimits
from perfcast.replays.program.program import Fill

FLOAT, LONG = "Tensor(float)", "Tensor(long int)"
RELU = "aten::relu(Tensor self) -> Tensor"
EMBEDDING = (
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor"
)


def relu(node_id: int, source: int, result: int, shape: list[int], **changes: Any) -> dict[str, Any]:
    made = node(
        node_id,
        "aten::relu",
        inputs=[(tensor(source, source + 1000, shape), FLOAT, shape)],
        outputs=[(tensor(result, result + 1000, shape), FLOAT, shape)],
        schema=RELU,
    )
    return {**made, **changes}


def lookup() -> list[dict[str, Any]]:
    table, rows = (tensor(22, 1022, [100, 4]), FLOAT, [100, 4]), (tensor(21, 1021, [8], size=8), LONG, [8])
    return [
        node(3, "aten::embedding", inputs=[table, rows], schema=EMBEDDING,
             outputs=[(tensor(23, 1023, [8, 4]), FLOAT, [8, 4])])
    ]  # fmt: skip


EVIL = "__import__('os').system('touch {mark}')"


@pytest.mark.parametrize(
    "bad",
    [
        node(3, EVIL, schema=f"{EVIL}() -> ()"),
        node(3, "os::system", schema="os::system(str command='touch {mark}') -> ()",
             inputs=[("touch {mark}", "String", [])]),
        node(3, "aten::relu", schema=f"aten::relu(Tensor self={EVIL}) -> Tensor",
             inputs=[(EVIL, "String", [])]),
        node(3, "prim::Print", schema="prim::Print(str text) -> ()", inputs=[("x", "String", [])]),
        node(3, "aten::save", schema="aten::save(t item, str filename) -> ()",
             inputs=[(1, "Int", []), ("{mark}", "String", [])]),
        relu(3, 10, 11, [1 << 45]),
        relu(3, 10, 11, [1 << 20] * 20),
        relu(3, 10, 11, [-5, 4]),
        relu(3, 10, 11, [4], id="3; import os"),
        node(3, "aten::empty", inputs=[([1 << 40], "GenericList[Int]", [[]])],
             schema="aten::empty.memory_format(SymInt[] size) -> Tensor"),
    ],
)  # fmt: skip
def test_hostile_traces_end_with_one_line_and_leave_no_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: dict[str, Any]
):
    mark = tmp_path / "pwned"
    text = json.dumps(execution_document([bad])).replace("{mark}", str(mark))
    path = write(tmp_path / "bad.json", text.encode())
    assert run(["replay", str(path), "--repeat", "0", "--generate", str(tmp_path / "made")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not mark.exists()


def test_callers_in_a_circle_are_refused(tmp_path: Path):
    circle = [relu(3, 10, 11, [4], ctrl_deps=4), relu(4, 11, 12, [4], ctrl_deps=3)]
    with pytest.raises(TraceError):
        build_program(execution_trace(tmp_path, circle))


def test_a_program_has_as_many_calls_as_its_limit_and_no_more(tmp_path: Path):
    trace = execution_trace(tmp_path, [relu(3 + k, 10 + k, 11 + k, [4]) for k in range(5)])
    assert len(build_program(trace, limits=ReplayLimits(max_calls=5)).calls) == 5
    with pytest.raises(TraceError, match="5 calls, more than the limit of 4"):
        build_program(trace, limits=ReplayLimits(max_calls=4))


def test_a_long_list_of_tensors_is_read_and_bounded(tmp_path: Path):
    count = 5000
    values = [tensor(10 + k, 10_010 + k, [2]) for k in range(count)]
    kind, shapes = f"GenericList[{','.join([FLOAT] * count)}]", [[2]] * count
    cat = node(3, "aten::cat", inputs=[(values, kind, shapes), (0, "Int", [])],
               outputs=[(tensor(9, 9009, [2 * count]), FLOAT, [2 * count])],
               schema="aten::cat(Tensor[] tensors, int dim=0) -> Tensor")  # fmt: skip
    program = build_program(execution_trace(tmp_path, [cat]))
    assert len(program.buffers) == count + 1


def test_recorded_values_are_used_if_their_operator_can_take_them(tmp_path: Path):
    trace = execution_trace(tmp_path, lookup())
    folder = tmp_path / "nodes_resources"
    folder.mkdir()
    assert recorded_folder(tmp_path / "nodes.json.gz") == folder
    assert recorded_folder(tmp_path / "others.json") is None
    np.arange(8, dtype=np.int64).tofile(folder / "nid_3_tid_1.dat")
    program = build_program(trace, fills=FillOptions(folder=folder))
    kinds = [slot.filling.kind for slot in program.slots if slot.filling and slot.is_whole]
    assert kinds == [Fill.RECORDED]
    np.full(8, 100, dtype=np.int64).tofile(folder / "nid_3_tid_1.dat")
    with pytest.raises(TraceError, match=r"from 100 to 100.* needs 0 to 99"):
        build_program(trace, fills=FillOptions(folder=folder))


def test_shares_of_reuse_reach_what_embeddings_look_up(tmp_path: Path):
    shares = (0.5, 0.5, *(0.0,) * 15)
    bag = node(
        3, "aten::embedding_bag",
        inputs=[(tensor(22, 1022, [100, 4]), FLOAT, [100, 4]), (tensor(21, 1021, [8], size=8), LONG, [8]),
                (tensor(20, 1020, [2], size=8), LONG, [2]), (False, "Bool", [])],
        outputs=[(tensor(23, 1023, [2, 4]), FLOAT, [2, 4])],
        schema="aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq) "
               "-> Tensor",
    )  # fmt: skip
    program = build_program(execution_trace(tmp_path, [bag]), fills=FillOptions(reuse_fractions=shares))
    (found,) = [s.filling for s in program.slots if s.filling and s.filling.kind is Fill.LOOKUPS]
    assert found.reuse_fractions == shares
