"""Repeats over samples, and repeats of other things, in calls by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.traces.scaling.calls import ScalingCall, TensorArgument
from perfcast.traces.scaling.scaling import scale

Shape = tuple[int, ...]
BATCH = 8


class Program:
    """Calls in the order of their making."""

    def __init__(self) -> None:
        self.calls: list[ScalingCall] = []

    def call(self, operator: str, arguments: tuple[object, ...], out: Shape) -> TensorArgument:
        name, _, overload = operator.partition(".")
        place = len(self.calls)
        made = TensorArgument(f"t{place}", f"t{place}", "float32", out)
        self.calls.append(ScalingCall(place, name, overload or "default", arguments, (made,), place))  # type: ignore[arg-type]
        return made

    def data(self) -> TensorArgument:
        return self.call("aten::randn", ((BATCH, 20, 32), 6, None, None, None), (BATCH, 20, 32))

    def linear(self, x: TensorArgument, weight: str) -> TensorArgument:
        own = TensorArgument(weight, weight, "float32", (32, 32))
        return self.call("aten::linear", (x, own, None), x.shape)

    def loops(self) -> list[tuple[int, bool]]:
        return [(loop.count, loop.is_clear) for loop in scale(self.calls, BATCH, 4 * BATCH).loops]


def test_samples_that_are_taken_one_by_one_are_a_clear_loop():
    program = Program()
    x = program.data()
    for sample in range(BATCH):
        own = program.call("aten::select.int", (x, 0, sample), (20, 32))
        program.call("aten::relu", (program.linear(own, "w"),), (20, 32))
    assert program.loops() == [(BATCH, True)]


def test_samples_that_were_taken_apart_before_are_a_clear_loop():
    program = Program()
    x = program.data()
    program.call("aten::unbind.int", (x, 0), (20, 32))
    parts = tuple(TensorArgument(f"p{i}", "p", "float32", (20, 32), (32, 1), 640 * i) for i in range(BATCH))
    program.calls[-1] = replace(program.calls[-1], outputs=parts)
    for part in parts:
        program.call("aten::relu", (program.linear(part, "w"),), (20, 32))
    assert program.loops() == [(BATCH, True)]


@pytest.mark.parametrize("weights", ["one", "many"])
def test_layers_and_steps_over_data_that_grow_are_no_loop(weights: str):
    program = Program()
    x = program.data()
    for layer in range(BATCH):
        own = program.linear(x, "w" if weights == "one" else f"w{layer}")
        x = program.call("aten::relu", (own,), x.shape)
    assert program.loops() == []


def test_repeats_over_parameters_are_no_loop_over_samples():
    program = Program()
    program.data()
    for layer in range(BATCH):
        own = TensorArgument(f"w{layer}", f"w{layer}", "float32", (32, 32))
        program.linear(program.call("aten::zeros", ((20, 32), 6, None, None, None), (20, 32)), f"w{layer}")
        program.call("aten::linalg_vector_norm", (own, 2, None, False, None), ())
    assert program.loops() == []


def test_repeats_that_nothing_links_to_the_batch_are_a_loop_that_is_not_clear():
    program = Program()
    program.data()
    table = program.call("aten::zeros", ((21, 33), 6, None, None, None), (21, 33))
    for _ in range(2 * BATCH):
        program.call("aten::relu", (program.call("aten::mul.Scalar", (table, 2), (21, 33)),), (21, 33))
    assert program.loops() == [(2 * BATCH, False)]
