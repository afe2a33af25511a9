"""Operators run on tensors without memory: never those of libraries that look for memory."""

from __future__ import annotations

import pytest

from perfcast.traces.scaling.calls import ScalingCall
from perfcast.traces.scaling.meta import Blank, fitting_overload, needs_memory, run_blank
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

    monkeypatch.setattr("perfcast.traces.scaling.meta._run", fail)
    assert needs_memory(operator)
    assert run_blank(operator, None, (X,)) == f"{operator} needs memory"
    assert fitting_overload(operator, (X,)) is None
    assert rule_of(ScalingCall(0, operator, None, (), None, 0)) is not None


@pytest.mark.parametrize("operator", ["aten::from_file", "aten::item", "prims::add", "mylib::crash"])
def test_what_is_no_operator_on_tensors_alone_is_not_run(operator: str):
    assert isinstance(run_blank(operator, None, (X,)), str)
