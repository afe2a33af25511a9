"""``perfcast memory`` of a plan over several devices, as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perfcast.cli.main import run
from perfcast.report.answers import schema_of

COMMON = ("--device", "t4", "--dtype", "fp16", "--sequence-length", "32")


def called(capsys: pytest.CaptureFixture[str], model: str, *arguments: str) -> tuple[int, str, str]:
    code = run(["memory", model, *COMMON, *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def written(capsys: pytest.CaptureFixture[str], model: str, *arguments: str) -> dict[str, Any]:
    code, out, _ = called(capsys, model, *arguments, "--json", "-")
    assert code == 0
    data: dict[str, Any] = json.loads(out)
    jsonschema.validate(data, schema_of("memory-plan"))
    return data


def test_the_verdict_stands_in_the_first_lines(tiny: str, capsys: pytest.CaptureFixture[str]):
    code, out, _ = called(capsys, tiny, "--devices", "8", "--plan", "tp=2,pp=2", "--batch-size", "4")
    assert code == 0
    head = " ".join(out.split("Allocated")[0].split())
    assert " on 8 × NVIDIA T4 16GB" in head
    assert "tp=2,pp=2,dp=2,mbs=1 · 2 micro-batches" in head
    assert head.endswith(": fits")


@pytest.mark.parametrize("plan", ["tp=2,pp=2", "dp=4", "tp=2,dp=2"])
@pytest.mark.parametrize("mode", ["train", "decode"])
def test_a_plan_means_the_same_to_memory_and_predict(
    tiny: str, plan: str, mode: str, capsys: pytest.CaptureFixture[str]
):
    shared = [tiny, "--device", "h100-sxm", "--plan", plan, "--mode", mode, "--json", "-"]
    found = []
    for verb in ("memory", "predict"):
        assert run([verb, *shared]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["plan"] == found[1]["plan"]
    assert found[0]["dtype"] == found[1]["dtype"] == "bf16"
    assert found[0]["device_bytes"] == found[1]["memory"]["device_bytes"]


def test_the_numbers_of_text_and_json_are_one_forecast(tiny: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--devices", "8", "--plan", "pp=4", "--batch-size", "4")
    assert (data["world_size"], data["global_batch_size"], len(data["stages"])) == (8, 4, 4)
    assert data["peak_memory_bytes"] == max(stage["peak_memory_bytes"] for stage in data["stages"])
    assert data["device_bytes"] == data["reserved_memory_bytes"] + data["context_bytes"]
    assert data["fits"] is (data["device_bytes"] <= data["memory_capacity_bytes"])
    for stage in data["stages"]:
        for moment in stage["moments"]:
            assert moment["memory_bytes"] == sum(term["num_bytes"] for term in moment["terms"])


def test_fit_lists_recommendations_even_on_one_device(tiny: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--fit", "--batch-size", "4")
    assert data["world_size"] == 1
    assert data["step_seconds"] > 0
    assert all(
        recommendation["device_bytes"] < data["device_bytes"] for recommendation in data["recommendations"]
    )
    assert called(capsys, tiny, "--fit", "--batch-size", "4")[1].count("What would lower it") == 1


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_inference_has_no_training(tiny: str, mode: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--devices", "2", "--plan", "tp=2", "--mode", mode)
    assert (data["training"], data["stages"][0]["peak_moment"]) == (None, mode)


@pytest.mark.parametrize(("attention", "kernel"), [("sdpa", "flash"), ("eager", "math")])
def test_attention_is_named_as_elsewhere(
    tiny: str, attention: str, kernel: str, capsys: pytest.CaptureFixture[str]
):
    data = written(capsys, tiny, "--devices", "2", "--batch-size", "2", "--attention", attention)
    assert data["training"]["attention"] == kernel


def test_a_framework_is_followed(tiny: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--framework", "deepspeed", "--devices", "2", "--batch-size", "2")
    assert data["training"]["framework"] == "deepspeed"


def test_a_plan_alone_says_how_many_devices_there_are(tiny: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--plan", "tp=2,pp=2")
    assert (data["world_size"], data["training"]["framework"]) == (4, "megatron")


@pytest.mark.parametrize("dtype", ["fp8"])
@pytest.mark.parametrize("optimizer", ["adamw_8bit", "adafactor", "muon"])
def test_formats_and_optimizers_of_plans_are_in_the_help_and_are_taken(
    tiny: str, dtype: str, optimizer: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["memory", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{dtype} for plans" in shown
    assert "adamw_8bit, adafactor, muon for plans" in shown
    arguments = ("--plan", "tp=2", "--optimizer", optimizer, "--dtype", dtype, "--device", "h100-sxm")
    assert written(capsys, tiny, *arguments)["training"]["optimizer"] == optimizer


def test_the_page_is_written(tiny: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "plan.html"
    assert called(capsys, tiny, "--devices", "2", "--batch-size", "2", "--html", str(path))[0] == 0
    assert "Stages at their peaks" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--devices 8 --plan tp=3", "8 devices are no multiple of tp · pp · cp = 3"),
        ("--devices 8 --plan tq=2", "Did you mean tp?"),
        ("--devices 8 --plan dp=3,tp=2", "but there are 8 devices"),
        ("--devices 8 --batch-size 9", "batch size 9 is no multiple of dp=8"),
        ("--devices 8 --batch-size 8 --micro-batch-size 0", "--micro-batch-size 0"),
        ("--devices 0", "--devices 0"),
        ("--devices 8 --batch-size 0", "--batch-size 0"),
        ("--devices 8 --plan tp=8 --batch-size 1", "tp=8 does not divide 4 attention heads"),
        ("--devices 8 --plan pp=8", "pp=8 stages need at least as many layers; the model has 4"),
        ("--devices 2 --batch-size 2 --plan ep=2", "the model has no experts"),
        ("--devices 2 --batch-size 2 --plan recompute=ful", "Did you mean full?"),
        ("--devices 2 --batch-size 2 --sequence-length 0", "--sequence-length 0"),
        ("--devices 2 --batch-size 2 --mode serve", "train, prefill, decode"),
        ("--devices 2 --batch-size 2 --attention flash", "unknown attention 'flash'"),
        ("--devices 2 --batch-size 2 --optimizer lion", "unknown optimizer 'lion'"),
        ("--devices 2 --batch-size 2 --framework megatro", "Did you mean megatron"),
        ("--devices 2 --batch-size 2 --mode decode --fit", "inference has none to weigh"),
        ("--devices 2 --batch-size 2 --largest-batch", "are of one device"),
        ("--devices 2 --plan tp=2 --compile", "nothing to compile"),
        (
            "--devices 2 --batch-size 2 --optimizer-implementation fused",
            "--optimizer-implementation: of a captured model",
        ),
        ("--devices 2 --batch-size 2 --closed-form", "--closed-form: of a captured model"),
        ("--devices 2 --batch-size 2 --world-size 2", "--world-size: of a captured model"),
        ("--mode decode --framework fsdp", "fsdp trains only"),
        (
            "--plan tp=2 --mode prefill --attention eager",
            "--mode prefill under a plan has fused attention only",
        ),
        (
            "--plan tp=2 --framework pytorch",
            "framework pytorch cannot run this plan: tp=2: it keeps the model whole",
        ),
        ("--plan pp=2,schedule=interleaved", "schedule=interleaved with vp=1"),
        ("--plan cp=3,cp_type=ulysses --sequence-length 33", "cp=3 does not divide the 4 attention heads"),
    ],
)
def test_bad_plans_exit_with_2_and_one_line(
    tiny: str, arguments: str, says: str, capsys: pytest.CaptureFixture[str]
):
    code, out, err = called(capsys, tiny, *arguments.split())
    assert (code, out) == (2, "")
    assert says in err
    assert len([line for line in err.splitlines() if line.startswith(("error", "Error"))]) == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("model", ["resnet-50", "dlrm-small", "t5-small"])
def test_a_model_that_no_closed_form_describes_is_refused(model: str, capsys: pytest.CaptureFixture[str]):
    code, _, err = called(capsys, model, "--devices", "2", "--batch-size", "2")
    assert code == 2
    assert err.startswith(f"error: {model}: the closed form does not describe")


def test_a_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, _, err = called(capsys, f"{tmp_path}/model.py:build", "--devices", "2", "--batch-size", "2")
    assert code == 2
    assert "needs the sizes of a model, not a program" in err
