"""``perfcast data summary`` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.catalogs.devices import find_device_name
from perfcast.cli.main import run

LINES = """\
dtype,m,n,k,sglang_ms,trtllm_ms,vllm_ms
bfloat16,256,4096,4096,0.05,0.06,0.07
bfloat16,256,4096,4096,0.05,,
bfloat16,0,4096,4096,0.05,0.06,0.07
bfloat16,512,4096,4096,0.0001,,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gemm_h100_sxm.csv").write_text(LINES)
    (tmp_path / "trace_kernel_times.csv").write_text("kernel,mean_us\nx,1\n")
    return tmp_path


def test_json_counts_the_tables_and_the_coverage(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["data", "summary", "--data", str(folder), "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    gemm, traces = result["tables"]
    assert gemm["table"] == "gemm_h100_sxm"
    assert gemm["devices"] == {"h100_sxm": "h100-sxm"}
    assert gemm["frameworks"] == ["sglang", "trtllm", "vllm"]
    assert (gemm["num_rows"], gemm["num_measurements"], gemm["num_kept"]) == (4, 5, 3)
    assert gemm["rejected"] == {"above peak": 1, "duplicate": 1, "impossible value": 1}
    assert traces["rejected"] == {"unsupported table": 1}
    assert result["coverage"] == {"h100-sxm": {"product": 3}}


def test_the_tables_name_devices_reasons_and_coverage(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["data", "summary", "--data", str(folder), "--data", str(folder)]) == 0
    out = capsys.readouterr().out
    for word in (
        "gemm_h100_sxm",
        "impossible value",
        "unsupported table",
        "Kept, by device and family",
        "h100-sxm",
    ):
        assert word in out


def test_a_folder_without_tables_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["data", "summary", "--data", str(tmp_path)]) == 2
    assert "holds no table of measurements" in capsys.readouterr().err


def test_a_folder_must_be_named(capsys: pytest.CaptureFixture[str]):
    assert run(["data", "summary"]) == 2
    assert "--data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100_sxm", "h100-sxm"),
        ("b200_sxm", "b200"),
        ("b300_sxm", "b300"),
        ("gb300", "gb300"),
        ("a100", "a100-sxm-80gb"),
        ("NVIDIA_A100-PCIE-40GB", "a100-pcie-40gb"),
        ("Tesla_V100-PCIE-32GB", "v100-pcie-32gb"),
        ("A100-PCIe", "a100-pcie-80gb"),
        ("B200-SXM", "b200"),
        ("NVIDIA_H100_80GB_HBM3", "h100-sxm"),
        ("MI300X/MI325X_(gfx942,_304_CU)", "mi300x"),
        ("MI350X/MI355X_(gfx950,_256_CU)", "mi355x"),
        ("AMD_Instinct_MI250", "mi250"),
        ("MI250", "mi250"),
        ("A100-80GB", "a100-sxm-80gb"),
        ("rtx_pro_6000", "rtx-pro-6000-server"),
        ("rtx_pro_6000_server", "rtx-pro-6000-server"),
        ("NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition", "rtx-pro-6000-server"),
        ("b60", "arc-pro-b60"),
        ("arc_b60", "arc-pro-b60"),
        ("arc_pro_b60", "arc-pro-b60"),
        ("abacus", None),
    ],
)
def test_devices_are_known_as_tables_spell_them(spelling: str, name: str | None):
    assert find_device_name(spelling) == name
