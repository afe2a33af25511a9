"""``perfcast predict`` of a plan over several devices, as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perfcast.cli.main import run
from perfcast.report.answers import schema_of

COMMON = ("--sequence-length", "32", "--cost-model", "roofline")


def called(capsys: pytest.CaptureFixture[str], model: str, *arguments: str) -> tuple[int, str, str]:
    code = run(["predict", model, *COMMON, *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def written(capsys: pytest.CaptureFixture[str], model: str, *arguments: str) -> dict[str, Any]:
    code, out, err = called(capsys, model, *arguments, "--json", "-")
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    jsonschema.validate(data, schema_of("predict-plan"))
    return data


def test_the_headline_names_model_devices_plan_and_step(tiny: str, capsys: pytest.CaptureFixture[str]):
    code, out, _ = called(capsys, tiny, "--cluster", "dgx-h100:8", "--plan", "tp=2,pp=2")
    assert code == 0
    head = " ".join(out.split("Throughput")[0].split())
    assert " on 8 × h100-sxm (dgx-h100)" in head
    assert "tp=2,pp=2,dp=2,mbs=1 · 8 micro-batches" in head
    assert "Step" in head
    for part in ("Where the step goes", "Ranks that differ", "What would help"):
        assert part in out


def test_every_key_of_a_plan_is_taken(tiny: str, capsys: pytest.CaptureFixture[str]):
    keys = (
        "tp=2,pp=2,cp=2,dp=2,sp=1,zero=1,recompute=full,schedule=1f1b,order=tp-cp-pp-dp,stages=3/1,"
        "cp_type=all_gather,shards=2,overlap=tensor+gradients,bucket=25MiB"
    )
    plan = written(capsys, tiny, "--cluster", "dgx-h100:16", "--plan", keys)["plan"]
    assert (plan["order"], plan["stage_layers"]) == ("tp-cp-pp-dp", [3, 1])
    assert (plan["context_communication"], plan["num_shards"]) == ("all_gather", 2)
    assert (plan["overlaps_tensor"], plan["overlaps_gradients"], plan["overlaps_weights"]) == (1, 1, 0)
    assert plan["bucket_bytes"] == 25 * 2**20


def test_without_a_batch_size_four_micro_batches_a_stage_fill_the_pipeline(
    tiny: str, capsys: pytest.CaptureFixture[str]
):
    data = written(capsys, tiny, "--cluster", "dgx-h100:8", "--plan", "pp=4,dp=2")
    assert (data["plan"]["num_micro_batches"], data["global_batch_size"]) == (16, 32)
    assert any("no --batch-size was given: 32 sequences" in note for note in data["assumptions"])


def test_a_stated_batch_is_cut_as_stated(tiny: str, capsys: pytest.CaptureFixture[str]):
    arguments = ("--cluster", "dgx-h100:8", "--plan", "pp=4", "--batch-size", "16", "--micro-batch-size", "2")
    data = written(capsys, tiny, *arguments)
    assert (data["plan"]["micro_batch_size"], data["plan"]["num_micro_batches"]) == (2, 4)
    assert not any("was given" in note for note in data["assumptions"])


@pytest.mark.parametrize(
    ("arguments", "devices"),
    [
        ("--cluster dgx-h100:16 --plan tp=2", 16), ("--cluster dgx-h100 --plan tp=4,dp=4", 16),
        ("--cluster dgx-h100 --devices 24 --plan tp=2", 24), ("--cluster dgx-h100", 8),
        ("--device h100-sxm --devices 4 --plan tp=2", 4), ("--device h100-sxm --plan tp=4", 4),
        ("--cluster dgx-h100:1 --framework megatron", 1),
    ],
)  # fmt: skip
def test_devices_are_counted_by_cluster_option_or_plan(
    tiny: str, arguments: str, devices: int, capsys: pytest.CaptureFixture[str]
):
    data = written(capsys, tiny, *arguments.split())
    assert (data["cluster"], data["num_devices"]) == ("dgx-h100", devices)
    assert any("no --cluster" in note for note in data["assumptions"]) is ("--cluster" not in arguments)


def test_plans_are_in_bf16_unless_another_format_is_asked_for(tiny: str, capsys: pytest.CaptureFixture[str]):
    assert written(capsys, tiny, "--cluster", "dgx-h100:8")["dtype"] == "bf16"
    assert written(capsys, tiny, "--cluster", "dgx-h100:8", "--dtype", "fp16")["dtype"] == "fp16"


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_inference_takes_one_micro_batch_of_each_replica(
    tiny: str, mode: str, capsys: pytest.CaptureFixture[str]
):
    data = written(capsys, tiny, "--cluster", "dgx-h100:8", "--plan", "tp=2", "--mode", mode)
    assert (data["training"], data["global_batch_size"], data["plan"]["num_micro_batches"]) == (None, 4, 1)


@pytest.mark.parametrize(("mode", "cuts_sequence"), [("train", True), ("decode", False)])
def test_the_sequence_is_cut_beside_the_weights_in_training_alone(
    tiny: str, mode: str, cuts_sequence: bool, capsys: pytest.CaptureFixture[str]
):
    data = written(capsys, tiny, "--cluster", "dgx-h100:8", "--plan", "tp=2,dp=4", "--mode", mode)
    assert data["plan"]["sequence_parallel"] is cuts_sequence


def test_keys_without_effect_are_errors(tiny: str, capsys: pytest.CaptureFixture[str]):
    for plan, says in (
        ("shards=4", "shards=4 has no effect: zero=0 shards nothing"),
        ("imbalance=2", "imbalance=2.0 has no effect: the model has no experts"),
        ("cp_type=ring", "cp_type=ring has no effect: cp=1 cuts no sequence"),
    ):
        code, _, err = called(capsys, tiny, "--cluster", "dgx-h100:8", "--plan", plan)
        assert (code, err.count("\n")) == (2, 1)
        assert says in err


def test_framework_names_the_program_of_a_training(tiny: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--cluster", "dgx-h100:8", "--framework", "deepspeed", "--plan", "zero=1")
    assert data["training"]["framework"] == "deepspeed"


def test_all_files_are_written(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    paths = {name: tmp_path / f"plan.{name}" for name in ("json", "html", "timeline")}
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    code, out, _ = called(capsys, tiny, "--cluster", "dgx-h100:8", "--plan", "pp=2", *options)
    assert code == 0
    for path in paths.values():
        assert f"wrote {path}" in out.replace("\n", "") or str(path) in out.replace("\n", "")
    assert "<h2>Timeline" in paths["html"].read_text(encoding="utf-8")
    events = json.loads(paths["timeline"].read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} >= {"M", "X"}


def test_a_closed_form_is_near_the_simulation(tiny: str, capsys: pytest.CaptureFixture[str]):
    arguments = ("--cluster", "dgx-h100:8", "--plan", "pp=2,tp=2")
    simulated = written(capsys, tiny, *arguments)
    closed = written(capsys, tiny, *arguments, "--closed-form")
    assert (simulated["method"], closed["method"]) == ("simulated", "closed_form")
    assert closed["num_events"] == 0 < simulated["num_events"]
    assert closed["step_seconds"] == pytest.approx(simulated["step_seconds"], rel=0.1)


def test_stragglers_lengthen_the_step_and_its_tail(tiny: str, capsys: pytest.CaptureFixture[str]):
    arguments = ("--cluster", "dgx-h100:8", "--plan", "pp=2", "--stragglers", "lognormal:0.05")
    data = written(capsys, tiny, *arguments)
    effect = data["stragglers"]
    assert data["step_seconds"] < effect["p50_seconds"] < effect["p95_seconds"] <= effect["p99_seconds"]
    assert "sigma 0.05" in effect["distribution"]
    assert any("equally fast" in recommendation["name"] for recommendation in data["recommendations"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "give --device NAME, or --cluster NAME:N"),
        ("--devices 8", "give --cluster NAME:N, or --device NAME"),
        ("--device p40 --devices 8", "no cluster of p40 is known"),
        ("--device a100-sxm-80gb --cluster dgx-h100:8", "has h100-sxm, not --device a100-sxm-80gb"),
        ("--cluster dgx-h100:8 --devices 16", "--cluster dgx-h100:8, but --devices 16"),
        ("--cluster dgx-h100:12", "cannot be filled alike"),
        ("--cluster dgx-h10:8", "Did you mean"),
        ("--cluster dgx-h100:8 --plan tp=3", "8 devices are no multiple of tp · pp · cp = 3"),
        ("--cluster dgx-h100:8 --plan dp=3,tp=2", "dp=3 · tp · pp · cp = 6, but there are 8 devices"),
        ("--cluster dgx-h100:8 --plan tp=8", "tp=8 does not divide 4 attention heads"),
        ("--cluster dgx-h100:8 --plan pp=8", "pp=8"),
        ("--cluster dgx-h100:8 --plan pp=2,stages=1/2/1", "layers of 3 stages for pp=2"),
        ("--cluster dgx-h100:8 --plan pp=2,stages=1/2", "3 layers; the model has 4"),
        ("--cluster dgx-h100:8 --plan overlap=tensors", "unknown overlap 'tensors'. Did you mean tensor?"),
        ("--cluster dgx-h100:8 --plan bucket=lots", "bucket=lots"),
        ("--cluster dgx-h100:8 --plan capacity=much", "capacity=much: 'much' is not a number"),
        ("--cluster dgx-h100:8 --plan order=tp-dp", "unknown order"),
        ("--cluster dgx-h100:8 --batch-size 9", "batch size 9 is no multiple of dp=8"),
        ("--cluster dgx-h100:8 --batch-size 0", "--batch-size 0"),
        ("--cluster dgx-h100:8 --devices 0", "--devices 0"),
        ("--cluster dgx-h100:8 --dtype fp9", "fp9"),
        ("--cluster dgx-h100:8 --mode serve", "train, prefill, decode"),
        ("--cluster dgx-h100:8 --plan tp=8 --compile", "nothing to compile"),
        ("--cluster dgx-h100:8 --framework megatro", "Did you mean megatron"),
        ("--cluster dgx-h100:8 --mode decode --attention eager", "fused attention"),
        ("--cluster dgx-h100:8 --stragglers lognorml:0.02", "expected lognormal:SIGMA"),
        ("--cluster dgx-h100:8 --closed-form --timeline never-written", "leave --closed-form out"),
        ("--world-size 8 --cluster dgx-h100:8 --tokens 1e9", "--tokens: of a transformer by its sizes"),
        ("--device t4 --price 2 --restart 0", "--restart, --price: of a whole run"),
        ("--cluster dgx-h100:8 --plan bucket=1e400MB", "bucket=1e400MB: inf is not between"),
        ("--cluster dgx-h100:8 --plan bucket=nanMB", "bucket=nanMB: 'nan' is not a number"),
        ("--cluster dgx-h100:8 --plan imbalance=inf", "imbalance=inf: 'inf' is not a number"),
        ("--cluster dgx-h100:8 --tokens 1e9 --mtbf -1", "--mtbf -1 is not above 0"),
        ("--cluster dgx-h100:8 --mtbf 5", "give its --tokens"),
        ("--device t4 --closed-form", "of a plan over several devices"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(
    tiny: str, arguments: str, says: str, capsys: pytest.CaptureFixture[str]
):
    code, out, err = called(capsys, tiny, *arguments.split())
    assert (code, out) == (2, "")
    assert says in err
    assert len([line for line in err.splitlines() if line.startswith(("error", "Error"))]) == 1


PROGRAM = """
import torch


def build(batch_size: int):
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    return model, (torch.zeros(batch_size, 64),)
"""


def test_a_program_of_ones_own_is_captured_and_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "model.py"
    path.write_text(PROGRAM, encoding="utf-8")
    arguments = ("--cluster", "dgx-h100:8", "--batch-size", "64", "--cost-model", "roofline", "--json", "-")
    assert run(["predict", f"{path}:build", *arguments]) == 0
    data = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, schema_of("predict-plan"))
    assert (data["parameter_count"], data["memory"]["fits"]) == (2 * 64 * 256 + 256 + 64, True)
    assert (data["plan"]["data_parallel"], data["training"]["framework"]) == (8, "pytorch")
    assert data["seconds_by_cause"]["data"] > 0
