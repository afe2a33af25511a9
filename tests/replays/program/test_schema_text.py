from __future__ import annotations

import pytest

from perfcast.errors import TraceError
from perfcast.replays.program.schema_text import parse_schema


def test_arguments_have_names_types_defaults_and_marks():
    schema = parse_schema(
        "aten::add.out(Tensor self, Tensor? other=None, *, Scalar alpha=1, int[2] pad=[0, 1], "
        "str mode='a, b', Tensor(a!) out) -> Tensor(a!)"
    )
    assert (schema.operator, schema.overload, schema.namespace) == ("aten::add", "out", "aten")
    assert [one.name for one in schema.arguments] == ["self", "other", "alpha", "pad", "mode", "out"]
    assert [one.type for one in schema.arguments] == [
        "Tensor",
        "Tensor?",
        "Scalar",
        "int[2]",
        "str",
        "Tensor",
    ]
    assert [one.is_keyword for one in schema.arguments] == [False, False, True, True, True, True]
    assert [one.is_written for one in schema.arguments] == [False] * 5 + [True]
    assert [one.default_value() for one in schema.arguments[1:5]] == [None, 1, (0, 1), "a, b"]


def test_views_are_marked_but_not_written():
    argument = parse_schema("aten::split.Tensor(Tensor(a -> *) self, SymInt n) -> Tensor(a)[]").arguments[0]
    assert (argument.type, argument.is_written, argument.is_viewed) == ("Tensor", False, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "add(Tensor self)",
        "aten::add(Tensor self",
        "aten::add'); import os; ('(Tensor self) -> ()",
        "os.system::x(int a) -> ()",
        "aten::add(...) -> ()",
        "aten::a" + "b" * 10_000 + "() -> ()",
    ],
)
def test_what_is_no_schema_is_refused(text: str):
    with pytest.raises(TraceError):
        parse_schema(text)
