from __future__ import annotations

import math

import pytest

from perfcast.errors import TraceError
from perfcast.replays.play.limits import (
    DEFAULT_LIMITS,
    ReplayLimits,
    check_arguments,
    check_bytes,
    check_operator,
)
from perfcast.replays.program.schema_text import parse_schema
from perfcast.traces.execution_trace.nodes import TensorUse


def test_only_named_namespaces_are_called():
    mine = parse_schema("evil::run(str command) -> ()")
    with pytest.raises(TraceError, match="outside the namespaces"):
        check_operator(mine, DEFAULT_LIMITS)
    check_operator(mine, DEFAULT_LIMITS.with_namespaces(["evil"]))


def test_operators_that_touch_files_are_refused():
    with pytest.raises(TraceError, match="maps files"):
        check_operator(parse_schema("aten::from_file(str filename) -> Tensor"), DEFAULT_LIMITS)


def test_the_limit_of_one_tensor_is_the_users():
    with pytest.raises(TraceError, match="raise the limit"):
        check_bytes(101, "it", ReplayLimits(max_tensor_bytes=100))
    check_bytes(100, "it", ReplayLimits(max_tensor_bytes=100))


def tensor_of(*shape: int) -> TensorUse:
    """A tensor of fp32."""
    count = math.prod(shape)
    return TensorUse(1, 1, 0, 0, count, 4, "cpu", "float32", shape, None)


def test_what_a_step_does_is_within_the_limits():
    product = parse_schema("aten::mm(Tensor self, Tensor mat2) -> Tensor")
    check_arguments(product, (tensor_of(8192, 8192), tensor_of(8192, 128_000)), DEFAULT_LIMITS)
    zeros = parse_schema("aten::zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor")
    check_arguments(zeros, ((2**33,), 15), DEFAULT_LIMITS)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ("aten::empty.memory_format(SymInt[] size) -> Tensor", ((10**6, 10**6),)),
        ("aten::arange(Scalar end) -> Tensor", (10**15,)),
        ("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", (None, (10**12,))),
        # Bytes of the result count, not elements of the arguments: 10^10 numbers of four bytes are 40 GB.
        ("aten::zeros(SymInt[] size) -> Tensor", ((10**5, 10**5),)),
        ("aten::zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor", ((3 * 10**9,), 7)),
        ("aten::arange(Scalar end) -> Tensor", (3 * 10**9,)),
        ("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", (tensor_of(10**6), (10**4,))),
        ("aten::add.Tensor(Tensor self, Tensor other) -> Tensor", (tensor_of(10**5, 1), tensor_of(1, 10**5))),
        ("aten::mm(Tensor self, Tensor mat2) -> Tensor", (tensor_of(10**5, 1), tensor_of(1, 10**5))),
        ("aten::outer(Tensor self, Tensor vec2) -> Tensor", (tensor_of(10**5), tensor_of(10**5))),
    ],
)
def test_arguments_that_ask_for_too_much_are_refused_whatever_was_recorded(schema, arguments):
    with pytest.raises(TraceError, match="limit"):
        check_arguments(parse_schema(schema), arguments, DEFAULT_LIMITS)


def test_views_may_repeat_elements_without_memory():
    schema = parse_schema("aten::expand(Tensor(a) self, SymInt[] size) -> Tensor(a)")
    check_arguments(schema, (None, (10**9, 10**9)), DEFAULT_LIMITS)
