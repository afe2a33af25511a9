"""Operators run on tensors without memory: never those of libraries that look for memory."""

from __future__ import annotations

import os
import signal

import pytest

from perfcast.traces.scaling.blanks.apart import Apart
from perfcast.traces.scaling.blanks.run import Blank, fitting_overload, needs_memory, run_blank
from perfcast.traces.scaling.recorded.calls import ScalingCall
from perfcast.traces.scaling.rules import rule_of

X = Blank((4, 16), None, "float32")


@pytest.mark.parametrize(
    "operator",
    [
        "aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::lstm_cell", "aten::_thnn_fused_lstm_cell",
        "aten::mkldnn_rnn_layer", "aten::_cudnn_rnn", "aten::miopen_rnn", "aten::fbgemm_linear_int8_weight",
        "aten::quantized_lstm", "aten::_nested_tensor_from_mask",
    ],
)  # fmt: skip
def test_libraries_that_look_for_memory_are_never_run(operator: str, monkeypatch: pytest.MonkeyPatch):
    def fail(*arguments: object) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr("perfcast.traces.scaling.blanks.run._run", fail)
    assert needs_memory(operator)
    assert run_blank(operator, None, (X,)) == f"{operator} needs memory"
    assert fitting_overload(operator, (X,)) is None
    assert rule_of(ScalingCall(0, operator, None, (), None, 0)) is not None


@pytest.mark.parametrize("operator", ["aten::from_file", "aten::item", "prims::add", "mylib::crash"])
def test_what_is_no_operator_on_tensors_alone_is_not_run(operator: str):
    assert isinstance(run_blank(operator, None, (X,)), str)


def test_values_of_other_types_than_declared_are_not_run():
    # a type of elements numbered -19 is looked up in a table, unchecked
    assert run_blank("aten::arange", "default", (18, -19, None, X)) == "dtype is no Optional[ScalarType]"
    assert run_blank("aten::relu", "default", (None,)) == "self is no Tensor"
    assert run_blank("aten::relu", "default", (X,)) == (Blank((4, 16), (16, 1), "float32"),)


def test_an_operator_that_is_not_known_to_run_so_is_run_in_another_process(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(
        "perfcast.traces.scaling.blanks.run._APART", lambda question: asked.append(question) or "!"
    )
    numbers = Blank((5,), None, "int64")
    assert run_blank("aten::bincount", "default", (numbers, None, 3)) == "!"
    assert asked == [("aten::bincount", "default", (numbers, None, 3))]


def _halved(number: int) -> int:
    if number % 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return number // 2


def test_a_process_that_ends_is_started_anew_and_ours_goes_on():
    apart = Apart(_halved, ended=-1)
    assert [apart(number) for number in (4, 3, 6, 8)] == [2, -1, 3, 4]
