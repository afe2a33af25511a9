"""Repeats over samples, and repeats of other things, in calls by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.traces.scaling.recorded.calls import ScalingCall, TensorArgument
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


def test_groups_of_samples_are_a_loop_whose_count_or_sizes_follow():
    program = Program()
    x = program.data()
    program.call("aten::split.Tensor", (x, 2, 0), (2, 20, 32))
    parts = tuple(TensorArgument(f"p{i}", "p", "float32", (2, 20, 32)) for i in range(4))
    program.calls[-1] = replace(program.calls[-1], outputs=parts)
    for part in parts:
        program.call("aten::relu", (program.linear(part, "w"),), (2, 20, 32))
    (loop,) = scale(program.calls, BATCH, 4 * BATCH).loops
    assert (loop.count, loop.is_clear, loop.is_of_groups) == (4, True, True)


def test_samples_of_a_timeline_alone_are_known_by_their_sizes():
    calls = [ScalingCall(0, "aten::randn", "default", ((BATCH, 20, 32), 6, None, None, None), None, 0)]
    x = TensorArgument(None, None, "float32", (BATCH, 20, 32), (640, 32, 1))
    calls.append(ScalingCall(1, "aten::unbind", "int", (x, 0), None, 1))
    own = TensorArgument(None, None, "float32", (20, 32), (32, 1))
    weight = TensorArgument(None, None, "float32", (32, 32), (32, 1))
    for _ in range(BATCH):
        calls.append(
            ScalingCall(len(calls), "aten::linear", "default", (own, weight, None), None, len(calls))
        )
        calls.append(ScalingCall(len(calls), "aten::relu", "default", (own,), None, len(calls)))
    (loop,) = scale(calls, BATCH, 4 * BATCH).loops
    assert (loop.count, loop.is_clear, loop.is_of_groups) == (BATCH, True, False)
