"""``perfcast search --mode serving --launch`` writes what starts the best deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.cli.main import run

WHAT = ("search", "llama3-8b", "--cluster", "dgx-h100:2", "--mode", "serving", "--cost-model", "roofline")
LENGTHS = ("--input-length", "256", "--output-length", "16", "--concurrency", "8", "--pools", "aggregated")


def test_the_best_deployment_is_launched(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "run"
    given = ("--num-played", "1", "--launch", str(folder), "--launch-model", "my/weights")
    assert run([*WHAT, *LENGTHS, *given]) == 0
    assert f"wrote {folder / 'serve.sh'}" in capsys.readouterr().out
    assert "vllm serve my/weights" in (folder / "serve.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--launch-model", "a/b"), "--launch-model: of --launch DIR"),
        (("--launch", "{folder}/file"), "not a folder"),
    ],
)
def test_what_cannot_be_launched_is_said_before_the_search(
    options: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("", encoding="utf-8")
    given = [option.format(folder=tmp_path) for option in options]
    assert run([*WHAT, *LENGTHS, *given]) == 2
    assert says in capsys.readouterr().err
