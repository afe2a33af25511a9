"""What may be fixed of a plan, from texts."""

from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.errors import InputError
from perfcast.searches.space.fixed import KEYS, allowed, chosen, read_fixed, write_fixed


def test_every_key_is_a_dimension_of_plans():
    assert all(hasattr(Plan(), name) for name in KEYS.values())


def test_values_are_read_by_the_grammar_of_plans():
    assert read_fixed("tp=8,zero=0, recompute=full stages=7/8/8/7") == {
        "tp": 8,
        "zero": 0,
        "recompute": "full",
        "stages": (7, 8, 8, 7),
    }
    assert read_fixed("overlap=weights,stages=even")["overlap_weights"] is True


def test_what_was_read_is_written_as_it_can_be_read_again():
    fixed = read_fixed("stages=7/8/8/7,sp=1,overlap_gradients=0,cp_type=ulysses")
    assert write_fixed(fixed) == "stages=7/8/8/7,sp=1,overlap_gradients=0,cp_type=ulysses"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp=0", "--fix tp=0: must be at least 1"),
        (" ", "nothing is fixed"),
        ("recompute_layer=2", "Did you mean recompute_layers"),
        ("prefetch=2", "unknown dimension of a search 'prefetch'"),
        ("cp=1,cp_type=ulysses", "cp_type=ulysses has no effect: cp=1 cuts no sequence"),
    ],
)
def test_what_no_search_can_have_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        read_fixed(text)


def test_a_derived_value_is_left_if_it_is_there_and_a_free_one_always():
    assert allowed({"tp": 3}, "tp", [1, 2, 4]) == []
    assert allowed({"tp": 2}, "tp", [1, 2, 4]) == [2]
    assert allowed({}, "tp", [1, 2, 4]) == [1, 2, 4]
    assert chosen({"zero": 3}, "zero", [0, 1]) == [3]
    assert chosen({}, "recompute", ["none", "full"]) == [0, 2]
