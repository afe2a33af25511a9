"""Finished measurements: kept, continued, looked at twice."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from perfcast.files.lock import StoreWarning
from perfcast.files.records import count_lines, open_records
from perfcast.measure.collectives.store import (
    KIND,
    Record,
    append_records,
    doubtful,
    load_records,
    measurements_path,
    refused_keys,
)

RECORD = Record("gloo", "tp", "all_reduce", 1024, 2, 1024, 1e-4, 0.1, 0)
OLDER = {name: value for name, value in asdict(RECORD).items() if name != "replaces"}


def sweep(*seconds: float) -> list[Record]:
    return [
        replace(RECORD, wanted_bytes=1024 * 2**i, size_bytes=1024 * 2**i, seconds=s)
        for i, s in enumerate(seconds)
    ]


def append(path: Path, *records: Record) -> None:
    with open_records(path, KIND) as file:
        append_records(file, records)


def test_what_is_appended_is_loaded(tmp_path: Path):
    path = measurements_path(tmp_path / "profile.json")
    assert path.name == "profile.json.measurements.jsonl"
    assert load_records(path, "gloo") == []
    append(path, RECORD)
    append(path, replace(RECORD, axis="dp"), replace(RECORD, setup="nccl"))
    assert load_records(path, "gloo") == [RECORD, replace(RECORD, axis="dp")]
    assert count_lines(path) == 3


def test_the_fastest_of_a_key_counts_from_the_last_that_replaces_others(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    append(path, *(replace(RECORD, seconds=s) for s in (3.0, 1.0, 2.0)))
    assert [r.seconds for r in load_records(path, "gloo")] == [1.0]
    append(path, replace(RECORD, seconds=2.5, replaces=True), replace(RECORD, seconds=2.0))
    assert [r.seconds for r in load_records(path, "gloo")] == [2.0]


def test_a_line_cut_off_costs_itself_alone(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps(OLDER) + '\n{"setup": "gl')  # as an older version left it
    assert load_records(path, "gloo") == [RECORD]
    with pytest.warns(StoreWarning, match="line 2 was cut off"):
        append(path, replace(RECORD, axis="dp"))
    assert len(load_records(path, "gloo")) == 2


@pytest.mark.parametrize("wrong", ['{"axis": "tp"}', json.dumps({**OLDER, "seconds": -1.0})])
def test_another_broken_line_is_named_and_the_rest_is_used(tmp_path: Path, wrong: str):
    path = tmp_path / "m.jsonl"
    path.write_text(f"{wrong}\n{json.dumps(OLDER)}\n")
    with pytest.warns(StoreWarning, match=r"m\.jsonl: line 1 is damaged"):
        assert load_records(path, "gloo") == [RECORD]


def test_what_makes_no_curve_is_measured_again_where_sizes_enough_were_measured():
    assert refused_keys(sweep(1.0, 1.0, 1.1, 1.4, 2.0)) == []
    falling = sweep(5.0, 4.0, 3.0, 2.0, 1.0)
    assert refused_keys(falling) == [record.key for record in falling]
    assert refused_keys(falling[:3]) == []


def test_a_smooth_sweep_needs_no_second_look():
    assert doubtful(sweep(1.0, 1.0, 1.1, 1.4, 2.0, 3.5)) == []


def test_what_took_longer_than_larger_messages_is_looked_at_again():
    assert [size for _, _, size in doubtful(sweep(1.0, 2.0, 1.1, 1.4))] == [2048]


def test_what_lies_far_above_its_neighbours_is_looked_at_again():
    assert [size for _, _, size in doubtful(sweep(1.0, 1.1, 2.9, 3.0, 6.0))] == [4096]
