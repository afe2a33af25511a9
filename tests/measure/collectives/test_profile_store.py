"""Finished measurements: kept, continued, looked at twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfcast.errors import CalibrationError
from perfcast.measure.collectives.store import (
    Record,
    append_records,
    count_records,
    doubtful,
    load_records,
    measurements_path,
)

RECORD = Record("gloo", "tp", "all_reduce", 1024, 2, 1024, 1e-4, 0.1, 0)


def sweep(*seconds: float) -> list[Record]:
    return [
        replace(RECORD, wanted_bytes=1024 * 2**i, size_bytes=1024 * 2**i, seconds=s)
        for i, s in enumerate(seconds)
    ]


def test_what_is_appended_is_loaded(tmp_path: Path):
    path = measurements_path(tmp_path / "profile.json")
    assert path.name == "profile.json.measurements.jsonl"
    assert load_records(path, "gloo") == []
    append_records(path, [RECORD])
    append_records(path, [replace(RECORD, axis="dp"), replace(RECORD, setup="nccl")])
    assert load_records(path, "gloo") == [RECORD, replace(RECORD, axis="dp")]
    assert count_records(path) == 3


def test_the_fastest_of_a_key_counts(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    append_records(path, [replace(RECORD, seconds=s) for s in (3.0, 1.0, 2.0)])
    assert [r.seconds for r in load_records(path, "gloo")] == [1.0]


def test_a_line_cut_off_is_dropped_and_not_appended_to(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    append_records(path, [RECORD])
    with path.open("a") as file:
        file.write('{"setup": "gl')
    assert load_records(path, "gloo") == [RECORD]
    append_records(path, [replace(RECORD, axis="dp")])
    assert len(load_records(path, "gloo")) == 2


def test_another_broken_line_is_an_error_with_its_place(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"axis": "tp"}\n')
    with pytest.raises(CalibrationError, match=r"m.jsonl:1: not a measurement .*--restart"):
        load_records(path, "gloo")


def test_a_smooth_sweep_needs_no_second_look():
    assert doubtful(sweep(1.0, 1.0, 1.1, 1.4, 2.0, 3.5)) == []


def test_what_took_longer_than_larger_messages_is_looked_at_again():
    assert [size for _, _, size in doubtful(sweep(1.0, 2.0, 1.1, 1.4))] == [2048]


def test_what_lies_far_above_its_neighbours_is_looked_at_again():
    assert [size for _, _, size in doubtful(sweep(1.0, 1.1, 2.9, 3.0, 6.0))] == [4096]
