"""``perfcast scale --limits``."""

from __future__ import annotations

import json

import pytest

from perfcast.cli.main import run

DENSE = ("scale", "--limits", "--assume", "sparsity=1")


def test_the_page_draws_utilization_over_compute_with_the_limits(tmp_path, capsys):
    page = tmp_path / "limits.html"
    assert run([*DENSE, "--html", str(page)]) == 0
    html = page.read_text()
    assert 'id="figure-utilization"' in html
    for limit in ("80% kept", "50% kept", "no plan beyond"):
        assert f">{limit}</text>" in html


def test_the_table_names_limits_and_free_variables(capsys):
    assert run([*DENSE]) == 0
    text = capsys.readouterr().out
    assert "keeps 80% of 70.0 %" in text
    assert "latency wall" in text
    assert "batch_exponent=0.1667" in " ".join(text.split())


def test_the_published_curve_stands_beside_ours(tmp_path, capsys):
    table = "log10_training_flop,theoretical_utilization_pct_digitised\n26,68.9\n"
    (tmp_path / "data_movement_utilization_curve.csv").write_text(table)
    assert run([*DENSE, "--data", str(tmp_path), "--json", str(tmp_path / "limits.json")]) == 0
    assert "68.9 %" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "limits.json").read_text())["curve"]
    assert row["published_utilization"] == pytest.approx(0.689)
    assert row["utilization"] == pytest.approx(0.69, abs=0.05)


def test_a_limit_that_does_not_exist_is_null(capsys):
    assert run([*DENSE, "--assume", "launch_seconds=0", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["latency_wall_flops"] is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["scale"], "--limits"),
        (["scale", "--limits", "--assume", "batch_exponen=1"], "Did you mean batch_exponent"),
        (["scale", "--limits", "--assume", "aspect"], "is not NAME=NUMBER"),
        (["scale", "--limits", "--assume", "aspect=nan"], "is not NAME=NUMBER"),
    ],
)
def test_bad_input_is_one_error(capsys, arguments, complaint):
    assert run(arguments) == 2
    assert complaint in capsys.readouterr().err
