"""Numbers that are given: their ranges, and texts that are read as numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError, PlanError
from perfcast.ranges import (
    BATCH,
    CACHED,
    FRACTION,
    Range,
    check_path,
    check_text,
    excerpt,
    read_number,
    read_whole,
)

WIDE = Range(-1e18, 1e18)
#: What nobody means by a number.
HOSTILE = (
    *(
        "",
        " ",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "1e400",
        "-1e400",
        "٣",
        "1e",
        "0x10",
        "1,5",
        "five",
        "--1",
        "1 2",
    ),
    *("9" * 5_000, "1e" + "9" * 100, "0." + "0" * 5_000 + "1", "-" * 300, "\0", "\udcff"),
)


def test_a_range_holds_its_ends_unless_they_are_left_out():
    assert [BATCH.holds(value) for value in (0, 1, 10**9, 10**9 + 1)] == [False, True, True, False]
    assert [FRACTION.holds(value) for value in (0.0, 1e-9, 1.0, 1.1)] == [False, True, True, False]
    assert [CACHED.holds(value) for value in (0.0, 1.0)] == [True, False]
    assert not any(WIDE.holds(value) for value in (math.nan, math.inf, -math.inf, 10**5000))


def test_a_refusal_says_what_the_range_and_why():
    with pytest.raises(PlanError) as refused:
        Range(1, 1000, "each is shown").check("--top", 2000, PlanError)
    assert str(refused.value) == "--top 2000 is not between 1 and 1,000; each is shown"
    assert FRACTION.words == "above 0 and at most 1"
    assert CACHED.words == "at least 0 and below 1"


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("read", [read_whole, read_number])
def test_what_is_no_number_is_refused_in_one_short_line(read, text: str):
    with pytest.raises(InputError) as refused:
        read("--option", text, WIDE)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_are_read_as_they_are_written(number: int):
    assert read_whole("n", str(number), WIDE) == number
    assert read_whole("n", f" {number:_} ", WIDE) == number


@given(st.floats(-1e18, 1e18))
def test_numbers_are_read_as_they_are_written(number: float):
    assert read_number("x", repr(number), WIDE) == number


@given(st.text(max_size=30))
def test_any_text_is_a_finite_number_or_an_input_error(text: str):
    for read in (read_whole, read_number):
        try:
            assert math.isfinite(read("--option", text, WIDE))
        except InputError:
            continue


@pytest.mark.parametrize("text", ["", "  ", "\t\n", "a\0b", "\udcff", "x" * 70_000])
def test_texts_that_cannot_be_meant_are_refused(text: str):
    with pytest.raises(InputError):
        check_text("--plan", text)


def test_names_too_long_for_any_system_are_refused():
    check_path("MODEL", "folder/" + "x" * 255)
    check_path("--cluster", ",".join(["dgx-h100:8"] * 1000))
    for text in ("x" * 256, "folder/" + "é" * 128, "/".join(["x" * 100] * 60)):
        with pytest.raises(InputError, match="no system takes"):
            check_path("MODEL", text)


def test_a_number_of_many_digits_is_named_by_their_count():
    assert excerpt(10**5000) == "10^5000 and more"
    assert excerpt(-(10**50)) == "-10^50 and more"
    assert (excerpt(12), excerpt(0.5), excerpt("a")) == ("12", "0.5", "'a'")
