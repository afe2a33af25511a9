"""Operators are found by name, arguments by the names of the schema."""

import pytest
import torch
from tests.small_replays import call

from perfcast.errors import TraceError
from perfcast.replays.play.bind import bind_call, find_operator
from perfcast.replays.program.program import DeviceName, SlotUse

TO_COPY = (
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"
)


def test_numbers_of_types_layouts_and_formats_become_pytorchs_words() -> None:
    bound = bind_call(call("aten::_to_copy", TO_COPY, (SlotUse(0), 15, 0, DeviceName("cpu"), None, False, 2)))
    assert bound.positional == [SlotUse(0)]
    assert bound.keywords == {
        "dtype": torch.bfloat16,
        "layout": torch.strided,
        "device": torch.device("cpu"),
        "memory_format": torch.channels_last,
    }


def test_what_equals_the_default_is_left_out() -> None:
    schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    bound = bind_call(call("aten::add", schema, (SlotUse(0), SlotUse(1), 1), overload="Tensor"))
    assert bound.positional == [SlotUse(0), SlotUse(1)]
    assert bound.keywords == {}


def test_an_operator_that_writes_says_into_which_slots() -> None:
    schema = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    assert bind_call(call("aten::add_", schema, (SlotUse(3), SlotUse(1), 1), overload="Tensor")).written == (
        3,
    )


def test_an_older_schema_is_bound_by_names() -> None:
    old = "aten::_to_copy(Tensor self, *, bool non_blocking=False, ScalarType? dtype=None) -> Tensor"
    assert bind_call(call("aten::_to_copy", old, (SlotUse(0), False, 6))).keywords == {"dtype": torch.float32}


def test_an_argument_that_the_installed_operator_does_not_know_is_an_error() -> None:
    schema = "aten::relu(Tensor self, int slope=0) -> Tensor"
    assert bind_call(call("aten::relu", schema, (SlotUse(0), None))).positional == [SlotUse(0)]
    with pytest.raises(TraceError, match="no argument 'slope'"):
        bind_call(call("aten::relu", schema, (SlotUse(0), 3)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aten::no_such_operator", "not registered"),
        ("aten::add.nothing", "no overload"),
        ("os.system('x')", "no operator's name"),
        ("aten::__class__", "not registered"),
        ("aten::from_file", "refused"),
        ("prim::Print", "refused"),
        ("nowhere::add", "not registered"),
    ],
)
def test_names_that_are_no_registered_operator_are_refused(name: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        find_operator(name)
