"""``perfcast trace explain``, ``forecast`` and ``overheads`` on small recordings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfcast.cli.trace.explain import explain
from perfcast.cli.trace.forecast import forecast
from perfcast.cli.trace.overheads import overheads
from perfcast.errors import InputError
from perfcast.units import MICRO
from recorded_traces import two_kernels


def run(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=True)  # type: ignore[arg-type]


def test_explain_writes_all_it_is_asked_for(tmp_path: Path):
    trace = two_kernels().write(tmp_path)
    data, page, timeline = (tmp_path / name for name in ("e.json", "e.html", "e.trace.json"))
    result = run(explain, trace, "--json", data, "--html", page, "--timeline", timeline)
    assert result.exit_code == 0, result.output
    assert "computing" in result.output
    assert json.loads(data.read_text())["ranks"][0]["num_launches"] == 2
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert json.loads(timeline.read_text())["traceEvents"]


def test_json_alone_goes_to_standard_output(tmp_path: Path):
    result = run(explain, two_kernels().write(tmp_path), "--json", "-")
    assert json.loads(result.output)["step_seconds"] == pytest.approx(100 * MICRO)


def test_explain_compares_with_another_run(tmp_path: Path):
    before = two_kernels().write(tmp_path, "before.json")
    after = two_kernels().write(tmp_path, "after.json")
    result = run(explain, after, "--compare", before)
    assert "100 µs before, 100 µs after" in result.output


def test_a_truncated_recording_is_refused_or_read_as_far_as_it_goes(tmp_path: Path):
    whole = json.dumps(two_kernels().as_dict())
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(whole[:-40].encode()))
    refused = run(explain, path)
    assert isinstance(refused.exception, InputError)
    assert run(explain, path, "--allow-truncated").exit_code == 0


def test_forecast_takes_what_ifs(tmp_path: Path):
    trace = two_kernels().write(tmp_path)
    data = tmp_path / "f.json"
    result = run(forecast, trace, "--what-if", "speed:gemm=0.2", "--json", data)
    assert result.exit_code == 0, result.output
    assert json.loads(data.read_text())["step_seconds"] == pytest.approx(260 * MICRO)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--what-if", "warp"), "unknown"),
        (("--device", "h900"), "h900"),
        (("--overheads", "missing.json"), "missing.json"),
    ],
)
def test_bad_input_is_said(tmp_path: Path, options: tuple[str, ...], message: str):
    result = run(forecast, two_kernels().write(tmp_path), *options)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_batch_needs_the_recorded_one(tmp_path: Path):
    result = run(forecast, two_kernels().write(tmp_path), "--batch-size", 4)
    assert result.exit_code == 2
    assert "belong together" in result.output


def test_overheads_of_one_run_forecast_another(tmp_path: Path):
    trace = two_kernels().write(tmp_path)
    profile = tmp_path / "host.json"
    assert run(overheads, trace, "--output", profile, "--host", "this").exit_code == 0
    result = run(forecast, trace, "--overheads", profile)
    assert result.exit_code == 0, result.output
    assert "host of this" in result.output
