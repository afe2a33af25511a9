"""What is entered, as plain data of a question's field."""

from __future__ import annotations

import pytest

pytest.importorskip("nicegui", reason="the page needs perfcast[web]")

from perfcast.server.page.fields import Field, fields_of, read_entry, split_entry, write_entry
from perfcast.verbs.fields import FieldKind
from perfcast.verbs.question import VERBS

NUMBER = Field(name="n", kind=FieldKind(scalar=int))
NUMBERS = Field(name="n", kind=FieldKind(scalar=int, is_list=True))
WORDS = Field(name="n", kind=FieldKind(scalar=str, is_list=True))


def test_nothing_entered_says_nothing():
    assert read_entry(NUMBER, "") is None
    assert read_entry(NUMBERS, " , ") is None
    assert read_entry(Field(name="n", kind=FieldKind(scalar=bool)), False) is None


def test_numbers_are_read_and_what_is_none_stays_for_the_question_to_refuse():
    assert read_entry(NUMBER, "128") == 128
    assert read_entry(NUMBER, "many") == "many"
    assert read_entry(NUMBERS, "8, 16,32") == (8, 16, 32)


def test_values_of_one_key_stay_together():
    assert read_entry(WORDS, "concurrency=1,4,16, replicas=1,2") == ("concurrency=1,4,16", "replicas=1,2")
    assert split_entry("a, b") == ["a", "b"]


def test_what_is_written_is_read_again():
    for values in [(8, 16), (1,)]:
        assert read_entry(NUMBERS, write_entry(values)) == values


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_of_a_question_can_be_entered(verb):
    for field in fields_of(verb).values():
        assert field.entry in ("text", "number", "flag", "choice")
        assert field.label
