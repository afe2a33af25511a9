"""Lines of tables as cases."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from small_tables import gemm_table, kernel_folder

from perfcast.errors import InputError
from perfcast.evidence.validate.kernels.cases import Cases, collect_cases, configuration_columns
from perfcast.evidence.validate.row import is_skip_reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return kernel_folder(tmp_path / "kernels")


def collect(folder: Path, most: int = 1000) -> list[Cases]:
    return collect_cases([folder], most, by_kind=True)[0]


def test_what_a_measurement_fills_is_no_configuration() -> None:
    names = ["gpu", "m", "shape", "kernel_source", "peak_tflops", "split", "step", "tp_size"]
    measured = ["latency_ms", "n_obs", "min_ms", "vllm_ms", "tflops", "kernel_name", "grid_x", "block_z",
                "efficiency", "achieved_tflops", "us", "us1", "kernelName2", "err1", "bw", "step_ms",
                "neusight_predicted_ms", "throughput_gelem_per_s", "latency"]  # fmt: skip
    assert configuration_columns([*names, *measured]) == names


def test_a_line_with_three_times_is_three_cases(folder: Path) -> None:
    (gemm,) = [part for part in collect(folder) if part.table == "gemm_h100_sxm"]
    assert len(gemm) == 24 * 3 - 6
    assert gemm.labels[:1] == ["gemm_h100_sxm:0"]
    assert set(gemm.operation) == {"gemm"}
    assert gemm.columns.columns == ["dtype", "m", "n", "k"]
    line = gemm.rows[5]
    assert gemm.columns["m"][5] == gemm_table(seed=1)["m"][int(line)]


def test_lines_that_are_not_read_say_why_by_the_fixed_list(folder: Path) -> None:
    found = {}
    for part in collect(folder):
        for label, reason in zip(part.labels, part.reason, strict=True):
            found[part.table, label] = reason
    assert {key: reason for key, reason in found.items() if reason} == {
        ("mla_bmm", 1): "incomplete: num_heads",
        ("mla_bmm", 2): "unsupported operation",
        ("mla_bmm", 3): "unknown device",
        ("mla_bmm", 4): "impossible value",
        ("trace_kernel_times", 0): "unsupported operation",
        ("trace_kernel_times", 1): "unsupported operation",
    }
    assert all(is_skip_reason(reason) for reason in found.values() if reason)


def test_a_sample_holds_something_of_every_table_device_format_and_framework(folder: Path) -> None:
    cases, total = collect_cases([folder], 30)
    assert total == 2 * 66 + 5 + 2
    assert sum(map(len, cases)) == 30
    strata = {str(s) for part in cases for s in part.strata}
    assert strata == {str(s) for part in collect(folder) for s in part.strata}
    again, _ = collect_cases([folder], 30)
    assert [part.labels for part in cases] == [part.labels for part in again]


def test_one_file_is_read_like_a_folder(folder: Path) -> None:
    cases, total = collect_cases([folder / "gemm_a100_sxm.csv"], 1000)
    assert total == 66
    assert set(cases[0].catalog_device) == {"a100-sxm-80gb"}
    (folder / "steps.csv").write_text("device\n")
    with pytest.raises(InputError, match="no known table"):
        collect_cases([folder / "steps.csv"], 10)


def test_devices_can_be_chosen_before_anything_is_drawn(folder: Path) -> None:
    cases, total = collect_cases([folder], 10, keep=lambda device: device.startswith("a100"))
    assert total == 66
    assert sum(map(len, cases)) == 10


def test_a_verdict_on_a_measurement_is_told_and_skips_nothing(tmp_path: Path) -> None:
    table = pl.DataFrame({"dtype": ["bfloat16"], "m": [8192], "n": [8192], "k": [8192], "sglang_ms": [0.01],
                          "trtllm_ms": [9.0], "vllm_ms": [9.0]})  # fmt: skip
    table.write_csv(tmp_path / "gemm_h100_sxm.csv")
    ((part,), _) = collect_cases([tmp_path], 10)
    verdicts = dict(zip(part.framework, part.judge(), strict=True))
    assert verdicts["sglang"] == "above peak"
    assert verdicts["trtllm"] == ""
    assert verdicts["vllm"].startswith("known fault")
    assert set(part.reason) == {""}
