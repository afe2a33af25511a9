"""``perfcast predict`` of a recommendation model on a cluster, as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.cli.main import run

ASKED = ("predict", "dlrm-small", "--cluster", "dgx-a100:4", "--batch-size", "1024")


def test_a_recommendation_model_on_a_cluster_is_forecast_with_its_tables_sharded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "step.json"
    assert run([*ASKED, "--cost-model", "roofline", "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert "dlrm-small on 4 × a100-sxm-80gb (dgx-a100)" in out
    assert "By rank" in out
    data = json.loads(path.read_text())
    assert data["optimizer"] == "rowwise_adagrad"
    assert len(data["ranks"]) == 4
    assert len(data["sharding"]) == 8


def test_a_dash_leaves_standard_output_to_json_and_the_optimizer_is_that_of_the_tables(
    capsys: pytest.CaptureFixture[str],
):
    asked = ("--optimizer", "sgd", "--dtype", "bf16", "--cost-model", "roofline", "--json", "-")
    assert run([*ASKED, *asked]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["optimizer"], data["dtype"]) == ("sgd", "bf16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plan", "tp=2"), "--plan tp=2: means nothing for dlrm-small"),
        (("--plan", "recompute=full"), "--plan recompute"),
        (("--mode", "decode"), "--mode decode"),
        (("--optimizer", "adamw"), "unknown optimizer 'adamw'"),
        (("--dtype", "fp12"), "unknown dtype 'fp12'"),
        (("--sequence-length", "3"), "--sequence-length: not of a recommendation model"),
        (("--attention", "sdpa"), "--attention: not of a recommendation model"),
        (("--html", "/nowhere/page.html"), "cannot write"),
        (("--closed-form",), "--closed-form"),
        (("--mtbf", "3"), "--mtbf"),
        (("--batch-size", "0"), "--batch-size 0 is not between"),
        (("--device", "t4"), "a100-sxm-80gb"),
    ],
)
def test_what_means_nothing_there_is_refused(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    assert run([*ASKED, *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_page_and_a_timeline_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, timeline = tmp_path / "step.html", tmp_path / "step.trace.json"
    assert run([*ASKED, "--cost-model", "roofline", "--html", str(page), "--timeline", str(timeline)]) == 0
    out = capsys.readouterr().out
    assert f"wrote {page}" in out.replace("\n", "")
    assert "dlrm-small on 4 × a100-sxm-80gb" in page.read_text()
    assert {event["pid"] for event in json.loads(timeline.read_text())["traceEvents"]} == {0, 1, 2, 3}


def test_several_devices_without_a_cluster_are_that_of_the_catalog_and_shard_the_tables_too(
    capsys: pytest.CaptureFixture[str],
):
    asked = ("--devices", "4", "--batch-size", "1024", "--cost-model", "roofline")
    assert run(["predict", "dlrm-small", "--device", "a100-sxm-80gb", *asked]) == 0
    out = capsys.readouterr().out
    assert "dlrm-small on 4 × a100-sxm-80gb" in out
    assert "no --cluster was given: " in out


def test_several_devices_of_no_name_are_refused(capsys: pytest.CaptureFixture[str]):
    assert run(["predict", "dlrm-small", "--devices", "4", "--batch-size", "1024"]) == 2
    assert "where does dlrm-small run?" in capsys.readouterr().err


def test_a_plan_of_several_devices_means_nothing_there(capsys: pytest.CaptureFixture[str]):
    assert run(["predict", "dlrm-small", "--device", "a100-sxm-80gb", "--plan", "dp=4"]) == 2
    assert "'perfcast shard' searches placements" in capsys.readouterr().err


def test_the_batch_has_to_be_said(capsys: pytest.CaptureFixture[str]):
    assert run(["predict", "dlrm-small", "--cluster", "dgx-a100:4"]) == 2
    assert "--batch-size" in capsys.readouterr().err
