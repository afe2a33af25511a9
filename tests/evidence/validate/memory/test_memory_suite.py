from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from memory_tables import (
    BLOOM,
    FAILURE,
    GIB,
    GOLDEN,
    PART,
    PLAYBOOK,
    SIMUMAX,
    memory_folder,
    predict,
    write_tables,
)

from perfcast.cli.main import run
from perfcast.core.forecast.footprint import Term
from perfcast.core.tensor import Category
from perfcast.errors import InputError, PlanError, UncoveredOperationError
from perfcast.evidence.validate.memory import suite as memory_suite
from perfcast.evidence.validate.memory.result import MemoryResult
from perfcast.evidence.validate.memory.suite import validate_memory
from perfcast.evidence.validate.result import write_result
from perfcast.evidence.validate.row import is_skip_reason
from perfcast.memory_use.footprint.spread import load_spread
from perfcast.report.documents.evidence.validation import memory_document
from rendered import text_of

MEASURED = {
    "training": ("peak_mem_gb", "step_time_s", "tokens_per_s_per_gpu", "mfu"),
    "peak_memory": ("peak_mem_gb", "metric_value"),
    "megatron_golden_values": ("mem_allocated_bytes", "mem_max_allocated_bytes"),
    "galvatron_llama2_7b_bf16": ("value_MB",),
}


def result_of(place: Path, **options: Any) -> MemoryResult:
    return validate_memory([place], {"footprint": predict}, **options)


def rows_of(place: Path, metric: str | None = None) -> list[dict[str, Any]]:
    return [row for row in result_of(place).to_json_rows() if metric in (None, row["metric"])]


def entry(result: MemoryResult, group: str, value: str) -> dict[str, Any]:
    (found,) = [e for e in result.summary if (e["group"], e["value"]) == (group, value)]
    return found


# ---- what is compared --------------------------------------------------------------------------------


def test_each_metric_is_compared_with_its_own_stage_and_part(tmp_path):
    """The made-up footprint: states of 10 and 20 GiB, 2 GiB of activations a sequence."""
    place = write_tables(
        tmp_path, training=[PLAYBOOK], megatron_golden_values=[GOLDEN], galvatron_llama2_7b_bf16=[PART]
    )
    found = {(row["table"], row["metric"]): row["predicted_bytes"] / GIB for row in rows_of(place)}
    assert found == {
        ("training", "allocated"): 14.0,  # first stage, two sequences
        ("training", "outcome"): 29.0,  # what the larger stage reserves, and the context
        ("megatron_golden_values", "allocated"): 28.0,  # last stage, four sequences
        ("megatron_golden_values", "allocated_steady"): 20.0,
        ("galvatron_llama2_7b_bf16", "model_states"): 20.0,
    }


def test_nvidia_smi_sees_the_context_and_the_allocator_does_not(tmp_path):
    place = write_tables(tmp_path, training=[BLOOM], peak_memory=[SIMUMAX])
    found = {row["collection"]: row["predicted_bytes"] / GIB for row in rows_of(place, "reserved")}
    assert found == {"bloom": 33.0, "simumax": 26.0}


def test_the_interval_is_that_of_what_was_measured_by_its_frameworks_spread(tmp_path):
    (row,) = rows_of(write_tables(tmp_path, training=[PLAYBOOK]), "allocated")
    held = Term("kept", Category.ACTIVATION, row["predicted_bytes"] - 10 * GIB, "", "")
    states = Term("states", Category.PARAMETER, 10 * GIB, "", "")
    ends = (row["predicted_bytes_low"], row["predicted_bytes_high"])
    assert ends == load_spread("nanotron").bounds([states, held])


def test_a_run_is_called_fitting_up_to_the_devices_capacity(tmp_path):
    """25 GiB and 2 a sequence of 80: 27 sequences fit, 28 do not."""
    lines = [FAILURE | {"micro_batch": batch, "grad_acc": 1} for batch in (27, 28)]
    rows = rows_of(write_tables(tmp_path, out_of_memory=lines))
    assert [(row["predicted_fits"], row["measured_fits"]) for row in rows] == [(True, False), (False, False)]
    assert {row["capacity_bytes"] for row in rows} == {80 * GIB}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(PlanError("no"), "unsupported plan"), (UncoveredOperationError("no"), "unsupported operation")],
)
def test_what_the_predictor_refuses_is_skipped_with_a_reason(tmp_path, error, reason):
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise error

    result = validate_memory([write_tables(tmp_path, training=[PLAYBOOK])], {"footprint": refuse})
    assert {row["skipped"] for row in result.to_json_rows()} == {reason}


def test_equal_runs_are_asked_for_once(tmp_path):
    calls = []

    def count(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return predict(*arguments, **options)

    validate_memory([write_tables(tmp_path, training=[PLAYBOOK, PLAYBOOK])], {"footprint": count})
    assert len(calls) == 1


# ---- the contract ------------------------------------------------------------------------------------


def test_permuting_every_measured_column_changes_no_prediction(tmp_path):
    lines = {
        "training": [PLAYBOOK, PLAYBOOK | {"micro_batch": "1", "peak_mem_gb": 33.0, "mfu": 0.2}, BLOOM],
        "peak_memory": [
            SIMUMAX,
            SIMUMAX | {"tp": 8, "pp": 1, "dp": 1, "peak_mem_gb": 28.0, "metric_value": 9.0},
        ],
        "megatron_golden_values": [GOLDEN, GOLDEN | {"tp": 4, "pp": 1, "mem_allocated_bytes": 5}],
        "galvatron_llama2_7b_bf16": [PART, PART | {"layers": 4, "value_MB": 3.0}],
    }
    straight = write_tables(tmp_path / "a", **lines)
    turned = tmp_path / "b"
    turned.mkdir()
    for table, columns in MEASURED.items():
        frame = pl.read_csv(straight / f"{table}.csv")
        frame.with_columns(pl.col(name).reverse() for name in columns).write_csv(turned / f"{table}.csv")
    before, after = rows_of(straight), rows_of(turned)
    assert [row["measured_bytes"] for row in before] != [row["measured_bytes"] for row in after]
    told = (
        "predicted_bytes",
        "predicted_bytes_low",
        "predicted_bytes_high",
        "skipped",
        "assumptions",
        "metric",
    )
    assert [[row[key] for key in told] for row in before] == [[row[key] for key in told] for row in after]


def test_rows_carry_the_contracts_keys_and_the_configuration(tmp_path):
    for row in rows_of(memory_folder(tmp_path)):
        assert {
            "suite",
            "table",
            "row",
            "device",
            "catalog_device",
            "operation",
            "metric",
            "predictor",
        } <= row.keys()
        assert {
            "predicted_bytes",
            "predicted_bytes_low",
            "predicted_bytes_high",
            "measured_bytes",
        } <= row.keys()
        assert row["layers"] is None or row["layers"] > 0
        assert "peak_mem_gb" not in row
        assert "notes" not in row
        assert row["skipped"] is None or is_skip_reason(row["skipped"])
        assert (row["predicted_bytes"] is None) == (row["skipped"] is not None)


def test_a_line_with_several_measurements_is_named_with_its_table(tmp_path):
    rows = rows_of(memory_folder(tmp_path))
    assert {row["row"] for row in rows if row["table"] == "out_of_memory"} == {0, 1}
    assert "training:0" in {row["row"] for row in rows}


def test_the_devices_own_spelling_is_kept_with_underscores(tmp_path):
    rows = rows_of(write_tables(tmp_path, peak_memory=[SIMUMAX]))
    assert {(row["device"], row["catalog_device"]) for row in rows} == {("B200-SXM_180GB", "b200")}


def test_the_summary_counts_duplicates_and_contradicted_failures_apart(tmp_path):
    fitted = PLAYBOOK | {"micro_batch": "4", "notes": "grad-acc 8"}
    place = write_tables(
        tmp_path,
        training=[fitted],
        out_of_memory=[FAILURE, FAILURE | {"micro_batch": 64, "grad_acc": 1}],
    )
    result = result_of(place)
    assert entry(result, "outcome", "fitted")["share_called_right"] == 1.0
    assert entry(result, "outcome", "failed") == {
        "predictor": "footprint", "group": "outcome", "value": "failed", "n": 1, "skipped": 0,
        "share_called_right": 1.0,
    }  # fmt: skip
    assert entry(result, "outcome", "failed, with contradicted")["share_called_right"] == 0.5


def test_the_summary_has_errors_by_metric_source_device_and_number_of_devices(tmp_path):
    result = result_of(write_tables(tmp_path, training=[PLAYBOOK | {"peak_mem_gb": 28.0}, BLOOM]))
    for group, value in (
        ("all", "all"), ("metric", "allocated"), ("metric, source", "allocated, usp"), ("source", "bloom"),
        ("metric, devices", "reserved, 384 devices"), ("device", "H100-SXM-80GB"), ("size", "16 to 32 GiB"),
    ):  # fmt: skip
        assert entry(result, group, value)["n"] in (1, 2)
    found = entry(result, "metric, source", "allocated, usp")
    assert (found["mean_relative_error"], found["coverage"]) == (-0.5, 0.0)


def test_skipped_lines_are_counted_by_reason(tmp_path):
    result = result_of(memory_folder(tmp_path))
    assert entry(result, "skipped", "unsupported operation")["skipped"] == 2
    assert entry(result, "skipped", "incomplete: layers")["n"] == 0


def test_max_rows_samples_by_a_fixed_hash_and_says_so(tmp_path):
    place = memory_folder(tmp_path)
    first, second = result_of(place, max_rows=5), result_of(place, max_rows=5)
    assert list(first.to_json_rows()) == list(second.to_json_rows())
    assert len(first.rows) == 5
    assert "5 of" in first.protocol["sampling"]
    assert "all" in result_of(place).protocol["sampling"]


def test_the_json_is_streamed_and_holds_protocol_rows_and_summary(tmp_path):
    result = result_of(memory_folder(tmp_path))
    text = io.StringIO()
    write_result(result, text)
    data = json.loads(text.getvalue())
    assert (data["suite"], len(data["rows"])) == ("memory", len(result.rows))
    assert {"fitted_on", "forecast", "measured", "outcome", "sampling"} <= data["protocol"].keys()
    assert data["summary"] == json.loads(json.dumps(result.summary))


# ---- the command -------------------------------------------------------------------------------------


def test_the_terminal_shows_every_row_and_why_rows_are_skipped(tmp_path):
    result = result_of(memory_folder(tmp_path))
    text = text_of(memory_document(result.to_json_rows(), result.summary), 200)
    assert text.count(" · allocated ") >= 5
    assert "skipped: incomplete: layers" in text
    assert "contradicted by training:1" in text
    assert "called fails, fails" in text
    assert "failed, with contradicted, usp" in text


def test_the_command_validates_tables_in_any_number_of_folders(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory_suite, "load_predictors", lambda names: {"footprint": predict})
    write_tables(tmp_path / "a", training=[PLAYBOOK])
    write_tables(tmp_path / "b", out_of_memory=[FAILURE])
    target = tmp_path / "out.json"
    arguments = ["validate", "memory", "--data", str(tmp_path / "a"), "--data", str(tmp_path / "b")]
    assert run([*arguments, "--json", str(target)]) == 0
    assert {row["table"] for row in json.loads(target.read_text())["rows"]} == {"training", "out_of_memory"}
    assert "wrote" in capsys.readouterr().out


def test_the_command_refuses_to_leave_devices_out(tmp_path, capsys):
    write_tables(tmp_path, training=[PLAYBOOK])
    assert run(["validate", "memory", "--data", str(tmp_path), "--leave-out", "h100-sxm"]) == 2
    assert "trains nothing" in capsys.readouterr().err


def test_an_unknown_predictor_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match=r"unknown predictor 'oracle'.*footprint"):
        memory_suite.load_predictors(("oracle",))
