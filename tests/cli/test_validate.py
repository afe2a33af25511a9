"""``perfcast validate`` over measured tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from perfcast.cli.main import run

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def perfcast(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sizes = {"dtype": ["bfloat16", "fp8"], "m": [64, 4096], "n": [1024, 4096], "k": [512, 4096]}
    times = {"sglang_ms": [0.01, 0.3], "trtllm_ms": [0.01, 0.3], "vllm_ms": [None, 0.2]}
    frame = pl.DataFrame(sizes | times)
    frame.write_csv(tmp_path / "gemm_h100_sxm.csv")
    return tmp_path


def test_json_goes_to_a_file_and_tables_to_the_terminal(perfcast: Run, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    code, out, _ = perfcast(
        "validate", "kernels", "--data", folder, "--predictor", "roofline", "--json", path
    )
    assert code == 0
    assert "gemm, h100_sxm" in out
    data = json.loads(path.read_text())
    assert data["suite"] == "kernels"
    assert len(data["rows"]) == 5


def test_a_dash_leaves_standard_output_to_json(perfcast: Run, folder: Path) -> None:
    code, out, err = perfcast(
        "validate", "kernels", "--data", folder / "gemm_h100_sxm.csv", "--predictor", "roofline",
        "--max-rows", 3, "--json", "-",
    )  # fmt: skip
    assert code == 0
    assert len(json.loads(out)["rows"]) == 3
    assert "gemm, h100_sxm" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "unknown suite"),
        (("kernels", "--leave-out", "l4"), "--data DIR"),
        (("memory", "--data", "sample", "--write-spread", "."), "too small to fit anything"),
        (("local", "--data", "x"), "takes no --data"),
        (("kernels", "--data", "nowhere"), "not a folder"),
        (("neusight", "--data", "nowhere"), "not a folder"),
        (("kernels", "--data", "x", "--predictor", "magic"), "unknown predictor"),
        (("kernels", "--data", ".", "--leave-out", "abacus"), "unknown device"),
        (("kernels", "--data", ".", "--train-data", "x"), "--leave-out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    perfcast: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = perfcast("validate", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("suite", "options", "said"),
    [
        ("kernels", ["--study"], "suite 'neusight'"),
        ("neusight", ["--study", "--all-tables"], "--all-tables"),
        ("neusight", ["--picture", "page.pdf"], "ends in .svg or .png"),
    ],
)
def test_what_does_not_go_with_the_studys_table_is_refused(
    perfcast: Run, suite: str, options: list[str], said: str, tmp_path: Path
) -> None:
    code, _, problem = perfcast("validate", suite, "--data", tmp_path, *options)
    assert code == 2
    assert said in problem
