"""``perfcast scale MODEL``: training on more devices, inference with more sequences."""

from __future__ import annotations

import json

import pytest

from perfcast.cli.main import run

GPT = ("scale", "gpt2", "--cost-model", "roofline", "--cluster", "dgx-h100")
TRAIN = (*GPT, "--devices", "8,16", "--batch-size", "64", "--plan", "tp=2")
SERVE = (*GPT, "--mode", "serve", "--plan", "tp=2", "--batch-sizes", "1,4", "--contexts", "128")


def test_a_row_for_each_number_of_devices(tmp_path, capsys):
    page = tmp_path / "scale.html"
    assert run([*TRAIN, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "gpt2, strong scaling: 64 sequences" in text
    assert "tp=2" in text
    assert f"wrote {page}" in text.replace("\n", "")
    assert "figure-throughput" in page.read_text()


def test_json_goes_alone_to_standard_output(capsys):
    assert run([*TRAIN, "--weak", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "weak"
    assert [point["batch_size"] for point in data["curves"][0]["points"]] == [64, 128]
    assert all(0 < point["mfu"] < 1 for point in data["curves"][0]["points"])


def test_without_a_plan_the_smallest_is_taken_on_every_cluster(capsys):
    arguments = [*GPT, "--cluster", "gb200-nvl72", "--devices", "8,16", "--json", "-"]
    assert run(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    assert [curve["cluster"] for curve in data["curves"]] == ["dgx-h100", "gb200-nvl72"]
    assert any("smallest tp" in note for note in data["assumptions"])


def test_clusters_are_repeated_or_joined_by_commas(capsys):
    arguments = ["scale", "gpt2", "--cost-model", "roofline", "--devices", "8", "--json", "-"]
    assert run([*arguments, "--cluster", "dgx-h100,dgx-a100", "--cluster", "dgx-h100"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [curve["cluster"] for curve in data["curves"]] == ["dgx-h100", "dgx-a100"]


def test_inference_is_swept_over_some_batches_where_none_are_given(capsys):
    assert run([*GPT, "--mode", "decode", "--plan", "tp=2,dp=2", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [point["batch_size"] for point in data["points"]] == [2, 16, 128]
    assert {point["context_length"] for point in data["points"]} == {1024}
    assert data["plan"]["sequence_parallel"] is False


def test_closed_form_and_simulation_agree(capsys):
    steps = []
    for more in ((), ("--simulate",)):
        assert run([*TRAIN, *more, "--json", "-"]) == 0
        (curve,) = json.loads(capsys.readouterr().out)["curves"]
        steps.append([point["step_seconds"] for point in curve["points"]])
    assert steps[0] == pytest.approx(steps[1], rel=0.05)


def test_inference_has_a_row_for_each_batch_and_context(tmp_path, capsys):
    page = tmp_path / "serve.html"
    assert run([*SERVE, "--html", str(page), "--json", str(tmp_path / "serve.json")]) == 0
    assert "the memory holds" in capsys.readouterr().out
    data = json.loads((tmp_path / "serve.json").read_text())
    assert [point["batch_size"] for point in data["points"]] == [1, 4]
    assert data["num_devices"] == 2
    first, second = (point["time_per_output_token"] for point in data["points"])
    assert second["tokens_per_second"] > first["tokens_per_second"]
    assert "figure-trade" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["scale"], "give MODEL and --cluster"),
        (["scale", "gpt2"], "give MODEL and --cluster"),
        ([*GPT], "--devices"),
        ([*GPT, "--devices", "8,x"], "whole numbers"),
        ([*GPT, "--devices", "8", "--batch-sizes", "1"], "--batch-sizes: of inference"),
        ([*GPT, "--devices", "8", "--assume", "a=1"], "--assume: of --limits"),
        ([*GPT, "--devices", "8", "--kv-cache-dtype", "fp8"], "--kv-cache-dtype: of inference"),
        ([*SERVE, "--weak"], "--weak: of training"),
        ([*SERVE, "--cluster", "dgx-a100"], "one --cluster"),
        (
            ["scale", "gpt2", "--cluster", "dgx-h100:64", "--devices", "8"],
            "dgx-h100:64: how many devices is said",
        ),
        (
            [*GPT, "--devices", "8,16", "--plan", "tp=3"],
            "8 devices cannot be forecast, and the other 1 neither",
        ),
        ([*SERVE, "--plan", "vp=2"], "vp=2 has no effect: pp=1 has no pipeline"),
        ([*SERVE[:4], "--cluster", "dgx-h100:8", *SERVE[6:], "--devices", "2"], "but --devices 2"),
        ([*SERVE, "--devices", "8,16"], "one number of --devices"),
        ([*GPT, "--mode", "dream", "--devices", "8"], "unknown mode 'dream'"),
        (["scale", "--limits", "gpt2"], "--limits has no model"),
        (["scale", "gpt2", "--cluster", "dgx-h1000", "--devices", "8"], "unknown cluster"),
    ],
)
def test_bad_input_is_one_error(capsys, arguments, complaint):
    assert run(arguments) == 2
    assert complaint in capsys.readouterr().err
