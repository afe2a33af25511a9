"""``validate published``: rows, summary, and that nothing measured is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_tables import write_tables
from published_lines import LORA, PLAYBOOK, VTRAIN, published_folder

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.published.cases import read_published_cases
from perfcast.evidence.validate.published.suite import validate_published, write_constants
from perfcast.evidence.validate.published.summary import devices_label, noise_floor, plan_label, spearman
from perfcast.evidence.validate.result import TableResult

MEASURED = (
    "step_time_s", "tflops_per_gpu", "tokens_per_s_per_gpu", "mfu", "hfu", "peak_mem_gb", "notes",
    "derived_fields",
)  # fmt: skip
LINES = [
    VTRAIN | {"micro_batch": 2},
    PLAYBOOK,
    PLAYBOOK | {"id": "usp-1b-0002", "tokens_per_s_per_gpu": 30000.0},
    LORA,
    VTRAIN | {"id": "vtrain-single-0002", "precision": None},
]


def whole(line: dict[str, Any]) -> dict[str, Any]:
    columns = dict.fromkeys(key for other in LINES for key in other)
    return columns | line


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TableResult:
    folder = published_folder(tmp_path_factory.mktemp("a"), *map(whole, LINES))
    return validate_published([folder], ["closed_form"])


def test_every_line_has_a_row_with_a_forecast_or_a_reason(result: TableResult) -> None:
    rows = [row.to_json() for row in result.rows()]
    assert [row["row"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["skipped"] for row in rows] == [None, None, None, None, "incomplete: precision"]
    for row in rows[:4]:
        assert 0 < row["predicted_seconds_low"] <= row["predicted_seconds"] <= row["predicted_seconds_high"]
        assert row["operation"] == "step"
    assert rows[3]["standing"].startswith("unverified")


def test_rows_carry_their_columns_verbatim_and_nothing_measured(result: TableResult) -> None:
    row = next(iter(result.rows())).to_json()
    assert {key: row[key] for key in ("id", "tp", "micro_batch", "interconnect")} == {
        "id": "vtrain-single-0657", "tp": 4, "micro_batch": 2, "interconnect": "single node NVLink",
    }  # fmt: skip
    assert not set(MEASURED) & set(row)


def test_measured_columns_may_change_places_and_forecasts_stay_to_the_byte(
    result: TableResult, tmp_path: Path
) -> None:
    lines = [whole(line) for line in LINES]
    moved = [
        line | {name: lines[(index + 1) % len(lines)][name] for name in MEASURED}
        for index, line in enumerate(lines)
    ]
    again = validate_published([published_folder(tmp_path, *moved)], ["closed_form"])
    names = ("predicted_seconds", "predicted_seconds_low", "predicted_seconds_high")
    told = [json.dumps([row.to_json()[n] for n in names]) for row in result.rows()]
    assert told == [json.dumps([row.to_json()[n] for n in names]) for row in again.rows()]


def test_the_summary_has_the_groups_that_are_asked_for(result: TableResult) -> None:
    found = {(entry["group"], entry["value"]) for entry in result.summary}
    assert {("usp", "without usp"), ("target", "dense on A100, H100, Blackwell"), ("kind", "dense"),
            ("plan", "dp·tp"), ("devices", "5-8"), ("noise floor", "usp")} <= found  # fmt: skip


def test_an_unknown_predictor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="simulated"):
        validate_published([published_folder(tmp_path, whole(VTRAIN))], ["simulate"])


def test_a_folder_without_any_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gpu_hours"):
        validate_published([tmp_path])
    with pytest.raises(InputError, match="training"):
        write_constants([tmp_path], tmp_path)


REQUEST = {
    "id": 1, "source": "NVIDIA/FasterTransformer@1", "source_locator": "a guide", "model": "GPT-20B",
    "gpu": "A100-80GB (DGX A100 SuperPod)", "num_gpus": 8.0, "tp": 8.0, "pp": 1.0, "dtype": "fp16",
    "batch": "1", "input_len": 20, "output_len": 8, "metric": "end-to-end latency", "value": "89.0",
    "unit": "ms", "notes": "dims 4L x 48x128, vocab 51200, top_p 0.9",
}  # fmt: skip
HOURS = {
    "id": 1, "source": "a card", "model": "Pythia-70M", "params_b": 0.07, "accelerator": "A100-40GB",
    "num_accelerators": 32.0, "tokens": "299.9B", "accelerator_hours": 510.0, "notes": "",
}  # fmt: skip


def test_other_tables_are_forecast_and_summed_up_apart(tmp_path: Path) -> None:
    folder = published_folder(tmp_path, whole(VTRAIN))
    write_tables(folder, inference=[REQUEST], gpu_hours=[HOURS])
    found = validate_published([folder], ["closed_form", "graph_replay"])
    rows = [(row.table, row.predictor, row.skipped) for row in found.rows()]
    assert rows == [
        ("training", "closed_form", None), ("inference", "closed_form", None),
        ("inference", "graph_replay", None), ("gpu_hours", "closed_form", None),
    ]  # fmt: skip
    counts = {(e["predictor"], e["group"]): e["n"] for e in found.summary if e["value"] == "all"}
    assert counts["closed_form", "all"] == 1
    assert counts["closed_form", "inference, all"] == counts["closed_form", "whole runs, all"] == 1
    assert ("graph_replay", "all") not in counts
    assert all(row.provenance for row in found.rows())
    json.dumps([row.to_json() for row in found.rows()] + found.summary, allow_nan=False)


def test_a_sample_is_drawn_evenly_over_tables(tmp_path: Path) -> None:
    lines = [whole(VTRAIN | {"id": f"vtrain-{n}", "micro_batch": 1}) for n in range(5)]
    folder = published_folder(tmp_path, *lines)
    write_tables(folder, gpu_hours=[HOURS, HOURS])
    found = validate_published([folder], ["closed_form"], max_rows=3)
    assert sorted(row.table for row in found.rows()) in (
        ["gpu_hours", "gpu_hours", "training"], ["gpu_hours", "training", "training"],
    )  # fmt: skip
    assert "3 of 7" in found.protocol["sampling"]


def test_repeats_of_one_run_make_the_noise_floor(tmp_path: Path) -> None:
    lines = [whole(PLAYBOOK | {"id": f"usp-{n}", "tokens_per_s_per_gpu": rate})
             for n, rate in enumerate((100.0, 200.0, 400.0))]  # fmt: skip
    floor = {entry["value"]: entry for entry in noise_floor(read_published_cases(
        [published_folder(tmp_path, *lines)]))}  # fmt: skip
    assert floor["usp"]["n"] == 3
    assert floor["usp"]["median_absolute_relative_error"] == pytest.approx(0.5)


def test_ranks_of_equal_order_correlate_fully() -> None:
    assert spearman([1.0, 2.0, 9.0], [3.0, 4.0, 5.0]) == 1
    assert spearman([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == -1
    assert spearman([1.0, 1.0, 1.0], [3.0, 2.0, 1.0]) == 0


def test_labels_name_devices_and_axes(tmp_path: Path) -> None:
    (case,) = read_published_cases([published_folder(tmp_path, whole(LORA))])
    assert (devices_label(case), plan_label(case)) == ("33-64", "dp·tp·cp·zero1")
