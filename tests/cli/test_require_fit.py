"""What does not fit is said before everything else, and --require-fit makes it exit code 3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.cli.main import run

DEVICE = ("--device", "h100-sxm")
PRICES = ("--cost-model", "roofline")
#: Verbs and what makes their answer too large for 80 GiB.
TOO_LARGE = {
    "predict": ("predict", "gpt2", *DEVICE, "--batch-size", "512", *PRICES),
    "predict under a plan": (
        "predict", "llama3-8b", "--cluster", "dgx-h100:8", "--batch-size", "64", "--plan", "mbs=8", *PRICES,
    ),
    "memory": ("memory", "gpt2", *DEVICE, "--batch-size", "512"),
    "memory of a plan": ("memory", "llama3-8b", *DEVICE, "--devices", "8", "--batch-size", "64"),
    "scale": (
        "scale", "llama3-8b", "--cluster", "dgx-h100", "--devices", "8", "--plan", "zero=0", *PRICES,
    ),
    "scale of inference": (
        "scale", "llama3-70b", "--mode", "serve", "--cluster", "dgx-h100", "--devices", "8", "--plan", "dp=8",
        "--batch-sizes", "8", *PRICES,
    ),
    "search": (
        "search", "llama3-8b", "--cluster", "dgx-h100:8", "--global-batch-size", "8", "--no-simulate",
        "--fix", "cp=1,offload=none,recompute=none", "--compare", "zero=0", *PRICES,
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", TOO_LARGE)
def test_what_does_not_fit_is_the_first_thing_said(verb: str, capsys: pytest.CaptureFixture[str]):
    assert run(list(TOO_LARGE[verb])) == 0
    lines = capsys.readouterr().out.splitlines()
    said = next(at for at, line in enumerate(lines) if "Does not fit" in line)
    first_figure = next(at for at, line in enumerate(lines) if " GiB" in line or "ms" in line)
    assert said <= first_figure
    assert " of 80.0" in " ".join(lines[: said + 3])


@pytest.mark.parametrize("verb", TOO_LARGE)
def test_require_fit_exits_with_3_and_still_answers(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    page = tmp_path / "page.html"
    assert run([*TOO_LARGE[verb], "--require-fit", "--json", "-", "--html", str(page)]) == 3
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert data["fits"] is False
    assert list(data)[3:5] == ["fits", "verdict"]
    assert "Does not fit" in data["verdict"]
    assert err.startswith("error: ")
    assert "oes not fit" in err
    body = page.read_text(encoding="utf-8").split("<main>")[1]
    assert body.index('class="verdict') < body.index('class="number') if 'class="number' in body else True


def test_what_fits_exits_with_0(tiny: str, capsys: pytest.CaptureFixture[str]):
    for asked in (("predict", *PRICES), ("memory",)):
        verb, *rest = asked
        assert run([verb, tiny, *DEVICE, "--batch-size", "1", *rest, "--require-fit", "--json", "-"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert (data["fits"], data["verdict"]) == (True, "")


def test_what_is_not_known_to_fit_is_not_taken_for_fitting(capsys: pytest.CaptureFixture[str]):
    asked = ("predict", "resnet50", "--cluster", "dgx-h100:8", "--plan", "pp=2", "--batch-size", "8", *PRICES)
    assert run([*asked, "--require-fit"]) == 3
    assert "whether it fits is not known" in capsys.readouterr().err


def test_a_run_that_does_not_fit_has_no_price(capsys: pytest.CaptureFixture[str]):
    asked = [*TOO_LARGE["predict under a plan"], "--tokens", "1e12", "--price", "2.5"]
    assert run([*asked, "--json", "-"]) == 0
    whole = json.loads(capsys.readouterr().out)["run"]
    assert (whole["fits"], whole["dollars"]) == (False, None)
    assert run(asked) == 0
    assert "not priced: a step does not fit" in capsys.readouterr().out


def test_the_way_out_is_one_that_fits(capsys: pytest.CaptureFixture[str]):
    asked = ["memory", "llama3-8b", *DEVICE, "--devices", "8", "--batch-size", "8"]
    assert run([*asked, "--json", "-"]) == 0
    assert "zero=3" in json.loads(capsys.readouterr().out)["verdict"]
    assert run([*asked, "--plan", "zero=3", "--require-fit"]) == 0
