"""Equal rows of whole numbers are found once each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.different import different_rows

WHOLE = st.integers(-3, 3)
LARGE = st.sampled_from([0, 1, -(2**40), 2**40, 2**41 - 1])


def tables(values):
    """Lists of rows, at least one, all of one to four values."""
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.tuples(*[values] * width), min_size=1, max_size=12)
    )


def check_rows(rows):
    """Both results against a dictionary of rows."""
    first, place = different_rows([np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)])
    assert [rows[first[number]] for number in place] == rows
    assert sorted(rows[at] for at in first) == sorted(set(rows))
    assert all(rows.index(rows[at]) == at for at in first)


@given(tables(WHOLE))
def test_every_row_is_the_first_one_with_its_number(rows):
    check_rows(rows)


@given(tables(LARGE | WHOLE))
def test_rows_whose_product_of_ranges_overflows_stay_apart(rows):
    check_rows(rows)


@given(tables(st.booleans()))
def test_flags_count_as_numbers(rows):
    check_rows(rows)


def test_no_rows_have_no_numbers():
    first, place = different_rows([np.zeros(0, dtype=np.int64)])
    assert len(first) == len(place) == 0
