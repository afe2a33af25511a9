"""Numbers with letters behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import PlanError
from perfcast.verbs.question import question_of
from perfcast.verbs.shared.values import read_amount
from perfcast.verbs.spelled import address_of, command_line, question_of_address


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("15T", 15e12),
        ("300B", 3e11),
        ("300G", 3e11),
        ("1.5M", 1.5e6),
        ("20k", 2e4),
        ("15e12", 15e12),
        ("7", 7.0),
    ],
)
def test_a_letter_is_a_power_of_a_thousand(text, number):
    assert read_amount("--tokens", text) == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize("text", ["", "T", "15X", "1TT", "15 days"])
def test_what_is_no_number_names_the_option_and_how_to_write_it(text):
    with pytest.raises(PlanError, match=r"--tokens .*such as 15T"):
        read_amount("--tokens", text)


@given(st.floats(min_value=1e-3, max_value=1e20))
def test_plain_numbers_stay_what_they_are(number):
    assert read_amount("--tokens", repr(number)) == number


def test_text_and_number_are_one_question_wherever_it_is_asked():
    by_text = question_of("predict", {"model": "llama3-8b", "tokens": "15T"})
    by_number = question_of("predict", {"model": "llama3-8b", "tokens": 15e12})
    assert by_text == by_number
    assert question_of_address("predict", "model=llama3-8b&tokens=15T") == by_number
    assert question_of_address("predict", address_of(by_text)) == by_number
    assert "--tokens 1.5e+13" in command_line(by_text)
