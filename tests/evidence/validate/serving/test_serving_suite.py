"""The suite of serving: rows of the contract, and that no forecast reads what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured_points import DENSE, write_points

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.serving.forecast import mean_of_benchmark, played_requests
from perfcast.evidence.validate.serving.ranking import (
    RankedPoint,
    rank_correlations,
    spearman,
    tokens_per_second,
)
from perfcast.evidence.validate.serving.suite import validate_serving

POINTS = [{**DENSE, "id": str(clients), "concurrency": float(clients)} for clients in (1, 2, 4, 8)]


def rows_of(folder: Path, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    write_points(folder, lines)
    return [row.to_json() for row in validate_serving([folder], ["events"]).rows()]


def test_rows_say_what_was_served_and_how_long_it_took(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, [*POINTS, {**DENSE, "id": "x", "system": "abacus"}])
    assert [(row["row"], row["operation"]) for row in rows[:3]] == [(0, "ttft"), (0, "tpot"), (1, "ttft")]
    first = rows[0]
    assert (first["suite"], first["table"]) == ("serving", "inference_ttft_tpot_aiconfigurator")
    assert (first["device"], first["catalog_device"], first["framework"]) == ("h100_sxm", "h100-sxm", "vllm")
    assert (first["mode"], first["dtype"], first["concurrency"]) == ("agg", "fp8", 1.0)
    assert not [name for name in first if name.startswith("silicon_t")]
    for row in rows[:-2]:
        assert row["predicted_seconds_low"] < row["predicted_seconds"] < row["predicted_seconds_high"]
    assert [row["skipped"] for row in rows[-2:]] == ["unknown device"] * 2
    tokens = [row["predicted_seconds"] for row in rows if row["operation"] == "tpot" and not row["skipped"]]
    assert tokens == sorted(tokens)


def test_forecasts_do_not_read_what_was_measured(tmp_path: Path) -> None:
    def predicted(lines: Sequence[Mapping[str, Any]]) -> list[Any]:
        names = ("predicted_seconds", "predicted_seconds_low", "predicted_seconds_high")
        return [[row[name] for name in names] for row in rows_of(tmp_path, lines)]

    moved = [
        {**line, "silicon_ttft_ms": 1.0 + place, "silicon_tpot_ms": 7.0} for place, line in enumerate(POINTS)
    ]
    assert predicted(POINTS) == predicted(moved)


def test_the_summary_has_halves_and_ranks(tmp_path: Path) -> None:
    write_points(tmp_path, POINTS)
    summary = validate_serving([tmp_path], ["events"]).summary
    groups = {entry["group"] for entry in summary}
    assert {"operation", "half, operation", "rank correlation of throughput"} <= groups


def test_no_table_and_no_such_predictor_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no inference_ttft"):
        validate_serving([tmp_path])
    with pytest.raises(UnknownNameError):
        validate_serving([tmp_path], ["oracle"])


def test_the_first_burst_is_a_tenth_of_the_mean() -> None:
    seconds = np.array([4.0, 4.0, 2.0, 2.0, 2.0, 2.0])
    assert mean_of_benchmark(seconds, 2) == pytest.approx(0.1 * 4 + 0.9 * 2)
    assert mean_of_benchmark(seconds[:2], 2) == 4.0
    assert [played_requests(clients) for clients in (1, 100, 5000)] == [10, 600, 10000]


def test_throughput_of_a_closed_loop_is_littles_law() -> None:
    assert tokens_per_second(8, 1.0, 0.1, 11.0, 4) == pytest.approx(8 * 11 / 2.0 / 4)


def test_rank_correlation_is_of_groups_large_enough() -> None:
    rising = [RankedPoint("a", float(place), 2.0 * place) for place in range(5)]
    falling = [RankedPoint("b", float(place), -1.0 * place) for place in range(5)]
    assert rank_correlations([*rising, *falling, RankedPoint("c", 1.0, 1.0)]) == {
        "a": pytest.approx(1.0),
        "b": pytest.approx(-1.0),
    }
    assert spearman([1.0, 1.0, 2.0], [3.0, 3.0, 4.0]) == pytest.approx(1.0)
