from __future__ import annotations

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


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ("aten::empty.memory_format(SymInt[] size) -> Tensor", ((10**6, 10**6),)),
        ("aten::arange(Scalar end) -> Tensor", (10**15,)),
        ("aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", (None, (10**12,))),
    ],
)
def test_arguments_that_ask_for_too_much_are_refused_whatever_was_recorded(schema, arguments):
    with pytest.raises(TraceError, match="limit"):
        check_arguments(parse_schema(schema), arguments, DEFAULT_LIMITS)


def test_views_may_repeat_elements_without_memory():
    schema = parse_schema("aten::expand(Tensor(a) self, SymInt[] size) -> Tensor(a)")
    check_arguments(schema, (None, (10**9, 10**9)), DEFAULT_LIMITS)
