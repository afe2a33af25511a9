"""Counts by table, and by device and family."""

from __future__ import annotations

import hand_made as made
from hand_made import table

from builders import made_up_device
from perfcast.evidence.dataset.coverage import cover, summarise

DEVICES = dict.fromkeys(("t4", "l40s"), made_up_device())


def test_a_table_is_counted_by_what_is_read_kept_and_refused():
    rows = [made.MATMUL, made.MATMUL, made.MATMUL | {"M": 0}, made.MATMUL | {"device": "Some GPU"}]
    summary = summarise(table("matmul_train", *rows), made.CATALOG.get, DEVICES)
    assert (summary.num_rows, summary.num_measurements, summary.num_kept) == (4, 3, 1)
    assert summary.rejected == {"duplicate": 1, "impossible value": 1, "unknown device": 1}
    assert summary.devices == {"Some_GPU": "", "Tesla_T4": "t4"}
    assert (summary.operations, summary.dtypes, summary.frameworks) == (("linear",), ("fp32",), ("pytorch",))
    assert summary.to_json()["num_kept"] == 1


def test_coverage_adds_up_the_tables():
    products = table("matmul_train", made.MATMUL, made.MATMUL | {"M": 7})
    rows = table("vector_train", made.VECTOR)
    summaries = [summarise(raw, made.CATALOG.get, DEVICES) for raw in (products, rows, products)]
    assert cover(summaries) == {"t4": {"product": 4, "rows": 1}}


def test_a_table_that_is_left_for_later_says_so():
    summary = summarise(table("trace_kernel_times", {"kernel": "x"}), made.CATALOG.get, DEVICES)
    assert summary.rejected == {"unsupported table": 1}
    assert summary.num_measurements == 0
