"""One schema for all tables: what is refused, and what never depends on a measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hand_made as made
import numpy as np
import pytest
from hand_made import KINDS, read, read_one, table
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.evidence.dataset.draft import LARGEST_SIZE
from perfcast.evidence.dataset.measurements import READERS, tidy

every_kind = pytest.mark.parametrize("stem", KINDS)


@every_kind
def test_a_sound_row_is_read(stem: str):
    measurements, rejected = read(stem, KINDS[stem][0])
    assert len(rejected) == 0
    assert sum(len(part) for part in measurements) == (3 if stem.startswith("gemm") else 1)


@every_kind
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=4))
@settings(max_examples=3, deadline=None)
def test_permuting_what_was_measured_changes_no_configuration(stem: str, values: list[int]):
    row, measured = KINDS[stem]
    rows = [row | dict.fromkeys(measured, value) for value in values]
    permuted = [row | dict.fromkeys(measured, value) for value in reversed(values)]
    for before, after in zip(read(stem, *rows)[0], read(stem, *permuted)[0], strict=True):
        for name, column in before.kernels.columns.items():
            assert column.tolist() == after.kernels.columns[name].tolist(), name


@every_kind
def test_an_empty_cell_is_refused_by_the_name_of_its_column(stem: str):
    row, raw = KINDS[stem][0], table(stem, KINDS[stem][0])
    needed = READERS[raw.kind].numbers + READERS[raw.kind].words
    measurements, rejected = read(stem, *(row | {column: None} for column in needed))
    assert measurements == []
    assert rejected.reason.tolist() == [f"incomplete: {column}" for column in needed]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"latency_ms": None}, "incomplete: latency_ms"),
        ({"latency_ms": 0.0}, "impossible value"),
        ({"latency_ms": -1.0}, "impossible value"),
        ({"latency_ms": float("nan")}, "impossible value"),
        ({"latency_ms": float("inf")}, "impossible value"),
        ({"latency_ms": "fast"}, "impossible value"),
        ({"M": 0}, "impossible value"),
        ({"M": -3}, "impossible value"),
        ({"M": 1.5}, "impossible value"),
        ({"M": "many"}, "impossible value"),
        ({"M": 10 * LARGEST_SIZE}, "impossible value"),
        ({"M": None}, "incomplete: M"),
        ({"op": "transpose"}, "unsupported operation"),
        ({"device": None}, "unknown device"),
        ({"device": " "}, "unknown device"),
    ],
)
def test_a_bad_cell_is_refused_with_its_reason_and_the_rest_is_read(row: dict[str, Any], reason: str):
    (kept,), rejected = read("matmul_train", made.MATMUL, made.MATMUL | row, made.MATMUL)
    assert rejected.row.tolist() == [1]
    assert rejected.reason.tolist() == [reason]
    assert kept.row.tolist() == [0, 2]


def test_a_format_that_nobody_knows_is_refused():
    _, rejected = read("moe_b300_sxm", made.MOE | {"moe_dtype": "fp3"})
    assert rejected.reason.tolist() == ["unsupported operation"]


def test_a_column_that_the_file_lacks_is_empty_in_every_row():
    row = {name: value for name, value in made.MATMUL.items() if name != "K"}
    measurements, rejected = read("matmul_train", row, row)
    assert measurements == []
    assert rejected.reason.tolist() == ["incomplete: K"] * 2


def test_a_column_that_is_no_configuration_may_be_anything():
    kernel, _ = read_one("matmul_train", made.MATMUL | {"grid_x": None, "kernel_name": "x"})
    assert kernel == read_one("matmul_train", made.MATMUL)[0]


def test_blanks_in_a_device_become_underscores_and_an_unknown_one_stays():
    (measurements,), _ = read("matmul_train", made.MATMUL, made.MATMUL | {"device": "Some GPU"})
    assert measurements.device.tolist() == ["Tesla_T4", "Some_GPU"]
    assert measurements.catalog_device.tolist() == ["t4", ""]


def test_a_table_that_is_left_for_later_is_refused_whole():
    measurements, rejected = read("trace_kernel_times", {"kernel": "x"}, {"kernel": "y"})
    assert measurements == []
    assert rejected.reason.tolist() == ["unsupported table"] * 2


def test_a_table_without_rows_is_empty():
    raw = table("matmul_train", made.MATMUL)
    measurements, rejected = tidy(replace(raw, frame=raw.frame.head(0)), made.CATALOG.get)
    assert measurements == []
    assert len(rejected) == 0


def test_taking_keeps_the_columns_together():
    rows = [made.MATMUL, made.MATMUL | {"M": 7, "device": "Tesla P4"}, made.MATMUL | {"M": 9}]
    (measured,), _ = read("matmul_train", *rows)
    assert len(measured) == 3
    taken = measured.take(np.array([2, 1]))
    assert taken.kernels.size("m").tolist() == [9, 7]
    assert taken.catalog_device.tolist() == ["t4", "p4"]
    assert taken.row.tolist() == [2, 1]
    assert len(measured.take(measured.kernels.size("m") > 8)) == 2


def test_equal_words_are_one_object():
    (measurements,), _ = read("matmul_train", *[made.MATMUL] * 3)
    assert len({id(word) for word in measurements.kernels.word("framework")}) == 1
