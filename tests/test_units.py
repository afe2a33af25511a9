from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast import units
from perfcast.units import format_bytes, format_count, format_seconds

SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
COUNTS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 ns"),
        (1.5e-9, "1.50 ns"),
        (1e-6, "1.00 µs"),
        (2.6e-6, "2.60 µs"),
        (0.0123, "12.3 ms"),
        (0.25, "250 ms"),
        (1.0, "1.00 s"),
        (3600.0, "3600 s"),
        (-0.002, "-2.00 ms"),
        (999.9e-6, "1.00 ms"),
        (9.999e-3, "10.0 ms"),
        (99.99e-3, "100 ms"),
    ],
)
def test_seconds_are_written_in_the_unit_that_a_person_would_choose(seconds: float, text: str):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (80 * 2**30, "80.0 GiB"), (3 * 2**40, "3.00 TiB")],
)
def test_bytes_are_written_with_binary_prefixes(num_bytes: int, text: str):
    assert format_bytes(num_bytes) == text


@pytest.mark.parametrize(
    ("count", "unit", "text"),
    [
        (7, "", "7.00"),
        (1500, "", "1.50 k"),
        (34.1e12, "FLOP", "34.1 TFLOP"),
        (999_990, "", "1.00 M"),
        (2e15, "FLOP", "2.00 PFLOP"),
    ],
)
def test_counts_are_written_with_decimal_prefixes(count: float, unit: str, text: str):
    assert format_count(count, unit) == text


@pytest.mark.parametrize(
    ("write", "sizes", "low", "high"),
    [
        (format_seconds, SECONDS, 1e-9, 1e4),
        (format_bytes, BYTES, 2**10, 2**49),
        (format_count, COUNTS, 1.0, 9e17),
    ],
)
@given(data=st.data())
def test_what_is_written_is_within_half_a_unit_of_the_third_digit(write, sizes, low, high, data):
    value = data.draw(st.floats(low, high))
    number, _, unit = write(value).partition(" ")
    assert float(number) * sizes[unit] == pytest.approx(value, rel=0.0051)


@given(st.floats(1e-9, 0.999))
def test_no_time_below_a_second_is_written_with_more_than_three_digits(seconds: float):
    assert len(re.sub(r"\D", "", format_seconds(seconds))) == 3


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("TFLOP/s", 1e12), ("PFLOP/s", 1e15), ("TOP/s", 1e12), ("GB/s", 1e9), ("TB/s", 1e12), ("MHz", 1e6),
        ("GB", 1e9), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 1024), ("us", 1e-6), ("W", 1),
    ],
)  # fmt: skip
def test_units_of_data_files_have_their_si_factor(unit: str, factor: float):
    assert units.UNIT_FACTORS[unit] == pytest.approx(factor, rel=1e-15)
