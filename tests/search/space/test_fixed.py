"""What may be fixed of a plan, from texts."""

from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.errors import InputError, UnknownNameError
from perfcast.search.space.fixed import KEYS, allowed, chosen, read_fixed


def test_every_key_is_a_dimension_of_plans():
    assert all(hasattr(Plan(), name) for name in KEYS.values())


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("tp", "8", 8),
        ("zero", "0", 0),
        ("sp", "1", 1),
        ("recompute", "full", "full"),
        ("recompute_layers", "4", 4),
        ("stages", "7/8/8/7", "7/8/8/7"),
        ("stages", "even", "even"),
    ],
)
def test_values_are_read(key: str, text: str, value: object):
    assert read_fixed(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("tp", "two", "not a whole number"),
        ("tp", "0", "must be at least 1"),
        ("recompute_layers", "0", "must be at least 1"),
        ("zero", "4", "must be 0, 1, 2 or 3"),
        ("sp", "2", "must be 0 or 1"),
        ("recompute", "some", "must be one of none, selective, full"),
        ("stages", "7//7", "layers of each stage"),
        ("recompute_layer", "2", "Did you mean recompute_layers"),
    ],
)
def test_what_no_plan_can_have_is_refused(key: str, text: str, message: str):
    with pytest.raises(InputError, match=message):
        read_fixed(key, text)


def test_an_unknown_key_lists_all():
    with pytest.raises(UnknownNameError, match="Known: dp, tp, pp"):
        read_fixed("xyz", "1")


def test_a_derived_value_is_left_if_it_is_there_and_a_free_one_always():
    assert allowed({"tp": 3}, "tp", [1, 2, 4]) == []
    assert allowed({"tp": 2}, "tp", [1, 2, 4]) == [2]
    assert allowed({}, "tp", [1, 2, 4]) == [1, 2, 4]
    assert chosen({"zero": 3}, "zero", [0, 1]) == [3]
    assert chosen({}, "recompute", ["none", "full"]) == [0, 2]
