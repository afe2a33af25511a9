"""Whether a step fits, and the line with which an answer says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.forecast.fit import Fit, all_fit, first_said, fit_of
from perfcast.units import GIB

FITS, FULL = fit_of(60 * GIB, 80 * GIB), fit_of(92 * GIB, 80 * GIB, way_out="recompute=full would")
DOUBTFUL = Fit(
    fits=True,
    needed_bytes=76 * GIB,
    needed_bytes_low=70 * GIB,
    needed_bytes_high=83 * GIB,
    capacity_bytes=80 * GIB,
)


def test_what_surely_fits_needs_no_first_line():
    assert not FITS.must_be_said
    assert first_said((FITS, None)) == ""


def test_what_does_not_fit_says_by_how_much_and_the_way_out():
    assert FULL.sentence == "Does not fit: 92.0 GiB of 80.0 GiB; recompute=full would"


def test_an_interval_around_the_capacity_is_said_both_ways():
    assert DOUBTFUL.sentence == "May not fit: 76.0 GiB (70.0 GiB – 83.0 GiB with 90 %) of 80.0 GiB"
    beyond = Fit(
        fits=False,
        needed_bytes=82 * GIB,
        needed_bytes_low=78 * GIB,
        needed_bytes_high=90 * GIB,
        capacity_bytes=80 * GIB,
        of="64 devices",
    )
    assert beyond.sentence == (
        "64 devices: Does not fit, though it may: 82.0 GiB (78.0 GiB – 90.0 GiB with 90 %) of 80.0 GiB"
    )


def test_what_does_not_fit_is_said_before_what_may_not():
    assert first_said((DOUBTFUL, FITS, FULL)) == f"{FULL.sentence}. {DOUBTFUL.sentence}"
    assert first_said([FULL] * 5).endswith("So it is of 2 more")


def test_all_fit_is_known_only_where_each_part_says_so():
    assert all_fit((FITS, DOUBTFUL)) is True
    assert all_fit((FITS, None)) is None
    assert all_fit((FITS, None, FULL)) is False


@given(st.integers(0, 2**50), st.integers(1, 2**50))
def test_without_an_interval_nothing_is_uncertain(needed: int, capacity: int):
    fit = fit_of(needed, capacity)
    assert not fit.is_uncertain
    assert fit.must_be_said == (needed > capacity)
