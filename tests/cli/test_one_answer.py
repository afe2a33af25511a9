"""One question has one answer, to the digit, however it is asked."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from click.testing import CliRunner

import perfcast
from perfcast.cli.main import cli
from perfcast.core.plan import Plan

MODEL, SHORT = "gpt2", "--sequence-length 128 --cost-model roofline"


def answer(command: str) -> dict[str, Any]:
    """What a command of perfcast answers in JSON."""
    found = CliRunner().invoke(cli, [*shlex.split(command), "--json", "-"])
    assert found.exit_code == 0, found.output
    data: dict[str, Any] = json.loads(found.stdout)
    return data


def times(data: dict[str, Any]) -> tuple[float, float, float]:
    return data["step_seconds"], data["step_seconds_low"], data["step_seconds_high"]


def needed(data: dict[str, Any]) -> int:
    """Bytes of a device, of any answer."""
    if "memory" in data:
        return data["memory"]["device_bytes"]
    return data.get("device_bytes") or data.get("needed_memory_bytes") or data["reserved"]["total_bytes"]


ON_ONE = (
    "--device h100-sxm",
    "--device h100-sxm --devices 1 --plan dp=1",
    "--cluster dgx-h100:1 --plan dp=1",
)


@pytest.mark.parametrize("program", ["", "--compile", "--framework megatron", "--framework fsdp"])
def test_a_training_on_one_device_has_one_answer(program: str):
    asked = [answer(f"predict {MODEL} {place} --batch-size 4 {program} {SHORT}") for place in ON_ONE]
    run = answer(f"predict {MODEL} {ON_ONE[2]} --batch-size 4 {program} {SHORT} --tokens 1e9")
    assert len({times(data) for data in (*asked, run)}) == 1
    assert len({json.dumps(data["program"]) for data in (*asked, run)}) == 1
    scaled = answer(
        f"scale {MODEL} --cluster dgx-h100 --devices 1 --plan dp=1 --batch-size 4 --micro-batch-size 4 "
        f"{program} {SHORT}" + ("" if program in ("", "--compile") else " --simulate")
    )
    assert times(scaled["curves"][0]["points"][0]) == times(asked[0])
    memory = [
        answer(f"memory {MODEL} {place} --batch-size 4 {program} --sequence-length 128")
        for place in ON_ONE[:2]
    ]
    assert len({needed(data) for data in (*asked, run, *memory)}) == 1


@pytest.mark.parametrize("mode", ["prefill", "decode"])
@pytest.mark.parametrize("program", ["", "--framework vllm", "--framework pytorch"])
def test_inference_on_one_device_has_one_answer(mode: str, program: str):
    asked = [
        answer(f"predict {MODEL} {place} --mode {mode} --batch-size 4 {program} {SHORT}") for place in ON_ONE
    ]
    assert len({times(data) for data in asked}) == 1
    memory = [
        answer(f"memory {MODEL} {place} --mode {mode} --batch-size 4 {program} --sequence-length 128")
        for place in ON_ONE[:2]
    ]
    assert len({needed(data) for data in (*asked, *memory)}) == 1
    scaled = answer(
        f"scale {MODEL} --cluster dgx-h100 --devices 1 --mode {mode} --batch-sizes 4 --contexts 128 "
        f"{program} --cost-model roofline"
    )
    name = {"prefill": "time_to_first_token", "decode": "time_per_output_token"}[mode]
    assert scaled["points"][0][name]["seconds"] == asked[0]["step_seconds"]
    assert scaled["program"] == asked[0]["program"]


def test_python_answers_as_the_command_line_does():
    data = answer(f"predict {MODEL} {ON_ONE[0]} --batch-size 4 {SHORT}")
    options: dict[str, Any] = {"sequence_length": 128, "cost_model": "roofline"}
    alone = perfcast.predict(MODEL, "h100-sxm", batch_size=4, **options)
    plan = perfcast.predict_plan(MODEL, "dgx-h100:1", Plan(micro_batch_size=4), **options)
    for found in (alone, plan):
        assert found.step_seconds == pytest.approx(data["step_seconds"], rel=1e-11)
        assert found.program.words
    served = perfcast.predict(MODEL, "h100-sxm", mode="decode", batch_size=4, **options)
    again = perfcast.predict_plan(MODEL, "dgx-h100:1", Plan(micro_batch_size=4), mode="decode", **options)
    assert served.step_seconds == again.step_seconds
    assert served.program == again.program


def test_replicas_run_what_one_device_runs_and_reduce_beside_it():
    one = answer(f"predict {MODEL} {ON_ONE[0]} --batch-size 4 {SHORT}")
    two = answer(f"predict {MODEL} --cluster dgx-h100:2 --plan dp=2 --batch-size 8 {SHORT}")
    assert two["program"] == one["program"]
    assert two["flops"] == 2 * one["flops"]
    assert one["step_seconds"] < two["step_seconds"]


def test_a_compiled_step_under_a_plan_is_faster_and_takes_less():
    asked = f"predict {MODEL} --cluster dgx-h100:8 --plan dp=8 --batch-size 64 {SHORT}"
    eager, compiled = answer(asked), answer(f"{asked} --compile")
    assert compiled["program"]["is_compiled"]
    assert compiled["step_seconds"] < eager["step_seconds"]
    assert needed(compiled) < needed(eager)
    place = "--device h100-sxm --devices 8 --plan dp=8 --batch-size 64 --sequence-length 128"
    assert needed(answer(f"memory {MODEL} {place} --compile")) == needed(compiled)


def test_the_header_names_the_program_the_option_that_changes_it_and_the_defaults():
    out = CliRunner().invoke(cli, shlex.split(f"predict {MODEL} {ON_ONE[0]} --cost-model roofline")).output
    said = " ".join(out.split())
    assert "the model's own modules, run eagerly by PyTorch" in said
    assert "--compile: fused" in said
    assert "bf16: mixed precision; 1,024 tokens" in said
