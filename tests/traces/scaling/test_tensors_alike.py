"""Tensors that a timeline alone does not tell apart, in calls by hand: none of them is named."""

from __future__ import annotations

from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument
from perfcast.traces.scaling.scaling import Scaling, scale

Shape = tuple[int, ...]


class Rows:
    """Calls as a timeline has them: their results are not recorded."""

    def __init__(self) -> None:
        self.calls: list[ScalingCall] = []

    def call(self, operator: str, *arguments: Argument) -> int:
        name, _, overload = operator.partition(".")
        place = len(self.calls)
        self.calls.append(ScalingCall(place, name, overload or "default", arguments, None, place))
        return place

    def scaled(self) -> Scaling:
        return scale(self.calls, 16, 64)


def alike(*shape: int) -> TensorArgument:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return TensorArgument(None, None, "float32", shape, tuple(strides))


def test_a_weight_with_the_sizes_of_samples_stays():
    rows = Rows()
    rows.call("aten::randn", (16, 16), 6, None, None, None)
    place = rows.call("aten::linear", alike(16, 16), alike(16, 16), None)
    assert rows.scaled().shapes(place) == ((64, 16), (16, 16))


def test_tokens_turned_before_samples_are_told_apart_by_what_runs():
    rows = Rows()
    rows.call("aten::randn", (16, 16, 8), 6, None, None, None)
    rows.call("aten::transpose.int", alike(16, 16, 8), 0, 1)  # as a window: 16 tokens of 16 samples
    turned = TensorArgument(None, None, "float32", (16, 16, 8), (8, 128, 1))
    rows.call("aten::clone", turned, 0)
    # of the two tensors of these sizes, only the first one goes with data of the samples
    rows.call("aten::randn", (16, 1, 8), 6, None, None, None)
    place = rows.call("aten::add.Tensor", alike(16, 16, 8), alike(16, 1, 8), 1)
    assert rows.scaled().shapes(place) == ((64, 16, 8), (64, 1, 8))
    # a sample's, or a token's of all samples: 16 rows or 64
    place = rows.call("aten::select.int", alike(16, 16, 8), 0, 0)
    assert rows.scaled().is_open(place)


def test_places_found_among_tokens_follow_them_where_results_are_not_recorded():
    rows = Rows()
    rows.call("aten::randn", (16, 24), 6, None, None, None)
    rows.call("aten::gt.Scalar", alike(16, 24), 0.5)
    mask = TensorArgument(None, None, "bool", (16, 24), (24, 1))
    found = TensorArgument(None, None, "int64", (150, 2), (2, 1))
    rows.call("aten::nonzero", mask)
    place = rows.call("aten::as_strided_", found, (150, 2), (2, 1), None)
    rows.calls[-2] = ScalingCall(place - 1, "aten::nonzero", "default", (mask,), None, place)
    place = rows.call("aten::select.int", found, 1, 0)
    assert rows.scaled().shapes(place) == ((600, 2),)
    assert not rows.scaled().is_open(place)
