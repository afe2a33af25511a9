from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from builders import small_forecast
from perfcast.cli.output import write_json
from perfcast.core.forecast.device import Forecast
from perfcast.errors import InputError, UnknownNameError
from perfcast.report.answers import SUBJECTS, downsample_indices, schema_of, write_plain
from perfcast.report.data import memory, step
from rendered import json_of


def test_a_model_without_sequences_has_no_tokens(forecast: Forecast) -> None:
    image_model = replace(forecast, sequence_length=None, mode="prefill", seconds_by_phase={"forward": 1.0})
    data = json_of(step.data_of(image_model))
    json_of(memory.data_of(image_model))
    assert data["tokens_per_second"] is None
    assert (data["backward_seconds"], data["optimizer_seconds"]) == (0.0, 0.0)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_schema_is_strict_and_describes_every_key(subject: str) -> None:
    schema = schema_of(subject)
    Draft202012Validator.check_schema(schema)
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            assert part["additionalProperties"] is False
            assert set(part["required"]) == set(part["properties"])
    assert [name for name, entry in schema["properties"].items() if not entry.get("description")] == []


def test_an_unknown_subject_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="predict"):
        schema_of("predictt")


def test_the_schema_refuses_a_key_that_it_does_not_know(forecast: Forecast) -> None:
    data = json_of(step.data_of(forecast)) | {"surprise": 1}
    assert not Draft202012Validator(schema_of("predict")).is_valid(data)


def test_the_figures_are_those_of_the_forecast(forecast: Forecast) -> None:
    data = json_of(step.data_of(forecast))
    assert data["step_seconds"] == forecast.step_seconds
    assert data["peak_memory_bytes"] == forecast.memory.peak_bytes
    assert data["fits"] is True
    phases = data["forward_seconds"] + data["backward_seconds"] + data["optimizer_seconds"]
    assert phases == pytest.approx(forecast.step_seconds)
    assert sum(row["seconds"] for row in data["breakdown"]) == pytest.approx(forecast.step_seconds)
    assert data["tokens_per_second"] == pytest.approx(8 * 1024 / forecast.step_seconds)


def test_a_decode_step_counts_one_token_for_each_sequence(forecast: Forecast) -> None:
    decode = replace(forecast, mode="decode")
    assert decode.tokens_per_second == pytest.approx(8 / forecast.step_seconds)


def test_a_forecast_lists_the_largest_blocks_and_counts_the_rest_but_memory_lists_all() -> None:
    forecast = small_forecast(num_layers=40)
    assert len(json_of(memory.data_of(forecast))["memory_intervals"]) == len(forecast.memory.intervals)
    data = json_of(step.data_of(forecast))
    sizes = [block["num_bytes"] for block in data["memory_intervals"]]
    assert len(sizes) == 100
    assert sizes == sorted((i.num_bytes for i in forecast.memory.intervals), reverse=True)[:100]
    assert data["memory_interval_count"] == len(forecast.memory.intervals) > 100


def test_a_long_timeline_is_thinned_and_keeps_its_peak_and_its_sums() -> None:
    forecast = small_forecast(num_layers=150)
    assert len(forecast.memory.timeline_bytes) > 2000
    data = json_of(memory.data_of(forecast))
    assert len(data["timeline_bytes"]) == 2000
    assert max(data["timeline_bytes"]) == forecast.memory.peak_bytes
    assert forecast.memory.peak_node in data["timeline_nodes"]
    sums = [sum(values) for values in zip(*data["timeline_bytes_by_category"].values(), strict=True)]
    assert sums == data["timeline_bytes"]


def test_thinning_is_ascending_keeps_spikes_and_leaves_short_series_alone() -> None:
    values = [0] * 1000
    values[137] = values[731] = 5
    kept = downsample_indices(values, 10, keep=731)
    assert kept == sorted(set(kept))
    assert len(kept) == 10
    assert {137, 731} <= set(kept)
    assert downsample_indices([3, 1], 10, keep=0) == [0, 1]


def test_a_dash_writes_to_standard_output_and_nothing_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_json({"a": 1}, "-")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"a": 1}
    assert captured.err == ""
    assert list(tmp_path.iterdir()) == []


def test_answers_have_no_more_digits_than_every_processor_agrees_on(tmp_path: Path) -> None:
    path, rounded_elsewhere = tmp_path / "x.json", 0.1 + 0.2
    data = {"seconds": rounded_elsewhere, "parts": ({"bytes": 12345678901234567}, -1 / 3, True, None, "0.30")}
    write_json(data, path)
    found = json.loads(path.read_text())
    assert found == {
        "seconds": 0.3,
        "parts": [{"bytes": 12345678901234567}, -0.333333333333, True, None, "0.30"],
    }


def test_what_is_read_back_keeps_every_digit(tmp_path: Path) -> None:
    write_json({"seconds": 0.1 + 0.2}, tmp_path / "x.json", is_exact=True)
    assert json.loads((tmp_path / "x.json").read_text())["seconds"] == 0.1 + 0.2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_never_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"seconds": value}, tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_for_json_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_json({}, tmp_path / "missing" / "x.json")


def test_indented_json_is_the_standard_library_s() -> None:
    plain = {
        "a": [1, 2.5, 1e-300, 1e22, -0.0, True, None, 'é\n"\\', [], {}, (), [[0.125]]],
        "keys": {1: 2, False: 3, None: 4, 2.5: 5, "x": (1,)},
        "whole": 10**30,
    }
    assert write_plain(plain) == json.dumps(plain, indent=2) + "\n"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused_with_an_indent_and_without(value: float) -> None:
    for indent in (None, 2):
        with pytest.raises(ValueError, match="JSON"):
            write_plain({"a": [value]}, indent=indent)
