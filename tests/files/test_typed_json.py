"""What passes between processes of ours comes as it went, and makes nothing but data."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError
from perfcast.files.typed_json import read_typed, write_typed
from perfcast.replays.program.program import CallKind, Fill, Filling, ReplayCall, ReplayProgram, SlotUse
from perfcast.report.document import Card, Cell, Command, Document, Note, Section, Table

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    plain | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.frozensets(plain)
    ),
    max_leaves=20,
)


@given(values)
def test_plain_data_come_as_they_went_types_and_all(value):
    read = read_typed(write_typed(value))
    assert read == value
    assert repr(read) == repr(value) or isinstance(value, frozenset | dict | list | tuple)


def test_tuples_stay_tuples_and_lists_lists():
    assert read_typed(write_typed(((1, 2.0), [3, (4,)]))) == ((1, 2.0), [3, (4,)])


def test_what_is_no_number_stays_none():
    assert math.isnan(read_typed(write_typed(math.nan)))
    assert read_typed(write_typed(-math.inf)) == -math.inf


def test_dataclasses_enums_and_what_they_hold_come_by_their_names():
    call = ReplayCall(
        1, CallKind.OPERATOR, "aten::mm", "", "", (SlotUse(0), (1, None, "a")), recorded_seconds=1.0
    )
    read = read_typed(write_typed(ReplayProgram((call,), (), (), selection={"steps": "1:2"})))
    assert isinstance(read, ReplayProgram)
    assert read.calls[0].arguments == call.arguments
    assert read.calls[0].kind is CallKind.OPERATOR
    assert read.selection == {"steps": "1:2"}
    filling = Filling(Fill.RECORDED, path="values.bin")
    assert read_typed(write_typed(filling)) == filling


def test_a_document_stays_what_it_says():
    blocks = (
        Section(title="a", blocks=(Note("n"), Command("c"))),
        Table(rows=((Cell("1", 1.0), 2),), columns=()),
    )
    document = Document(title="t", cards=(Card(label="l", value=np.float64(0.5)),), blocks=blocks)
    assert read_typed(write_typed(document)) == document


def test_arrays_of_numbers_keep_type_and_shape():
    for array in (
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.array([0.1, np.nan]),
        np.zeros((0, 4), bool),
    ):
        read = read_typed(write_typed(array))
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)


def test_functions_of_the_package_come_by_name_and_no_others():
    from perfcast.replays.play.session import play_program

    assert read_typed(write_typed(play_program)) is play_program
    with pytest.raises(TypeError):
        write_typed(Path.unlink)
    with pytest.raises(TypeError):
        write_typed(lambda: None)


@dataclass
class Foreign:
    value: int = 0


@pytest.mark.parametrize("value", [Foreign(), object(), np.array([object()]), 1j])
def test_what_is_not_of_the_package_does_not_pass(value):
    with pytest.raises(TypeError):
        write_typed(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[" * 100_000,
        '{"function": "os:system"}',
        '{"function": "perfcast.files.typed_json:json.loads"}',
        '{"function": "perfcast.files.typed_json:importlib.import_module"}',
        '{"function": "perfcast.errors:InputError"}',
        '{"data": ["subprocess:Popen", ["true"]]}',
        '{"data": ["perfcast.errors:InputError", "x"]}',
        '{"data": ["perfcast.report.document:Note"]}',
        '{"enum": ["perfcast.replays.program.program:Fill", "NOTHING"]}',
        '{"array": ["O", [1], "AAAAAAAAAAA="]}',
        '{"array": ["<f8", [1000000000], ""]}',
        '{"anything": 1}',
    ],
)
def test_a_text_that_was_not_written_here_is_an_error_and_calls_nothing(text):
    with pytest.raises(InputError, match="damaged"):
        read_typed(text)


def test_a_message_is_json():
    json.loads(write_typed((1, {"a": (2,)})))
