"""The suite of measured steps: rows of the contract, and that no forecast reads what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import example_lines as lines
import pytest
from example_lines import write_lines

from perfcast.errors import InputError
from perfcast.evidence.validate.vision.examples.headings import read_heading
from perfcast.evidence.validate.vision.suite import validate_vision

TABLES = [*lines.TRAINED, *lines.INFERRED, *lines.ACCURACY]


def rows_of(folder: Path, tables: Sequence[Mapping[str, str]], **options: Any) -> list[dict[str, Any]]:
    write_lines(folder / "nvidia_examples.jsonl", tables)
    result = validate_vision([folder], ["roofline"], **options)
    return [row.to_json() for row in result.rows()]


def test_rows_say_what_ran_where_and_how_long(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, TABLES)
    first = rows[0]
    assert (first["suite"], first["table"], first["operation"]) == ("vision", "nvidia_examples", "step")
    assert (first["model"], first["mode"], first["dtype"]) == ("ncf", "train", "fp32")
    assert (first["memory_format"], first["compiled"]) == ("contiguous", False)
    assert (first["GPUs"], first["Batch size / GPU"]) == ("1", "65536")
    assert not [key for key in first if key.startswith(("Throughput", "Strong scaling"))]
    for row in rows:
        assert row["skipped"] or row["predicted_seconds_low"] <= row["predicted_seconds"]
        assert row["skipped"] or row["predicted_seconds"] <= row["predicted_seconds_high"]
    assert rows[-1]["skipped"] == "incomplete: throughput"


def test_forecasts_do_not_read_what_was_measured(tmp_path: Path) -> None:
    def forecasts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        return [(row["row"], row["predicted_seconds"], row["predicted_seconds_high"]) for row in rows]

    before = forecasts(rows_of(tmp_path, TABLES))
    after = forecasts(rows_of(tmp_path, permuted(TABLES)))
    assert before == after


def permuted(tables: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Every measured column turned by one row within its own table."""
    changed = [dict(entry) for entry in tables]
    for index, entry in enumerate(tables):
        mates = [i for i, other in enumerate(tables) if list(other) == list(entry)]
        other = tables[mates[(mates.index(index) + 1) % len(mates)]]
        for name in entry:
            if name not in ("source_file", "section") and read_heading(name).is_result:
                changed[index][name] = other[name]
    assert changed != [dict(entry) for entry in tables]
    return changed


def test_a_batch_four_times_as_large_takes_longer(tmp_path: Path) -> None:
    small, large = rows_of(tmp_path, lines.INFERRED)[:2]
    assert small["predicted_seconds"] < large["predicted_seconds"]


def test_max_rows_draws_cases_and_says_so(tmp_path: Path) -> None:
    assert len(rows_of(tmp_path, TABLES, max_rows=3)) == 3
    result = validate_vision([tmp_path], ["roofline"], max_rows=3)
    assert result.protocol["sampling"].startswith("3 of 9 cases")


def test_a_folder_without_tables_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nvidia_examples"):
        validate_vision([tmp_path])
    with pytest.raises(InputError, match="roofline"):
        validate_vision([tmp_path], ["oracle"])
