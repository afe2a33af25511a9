"""What a search prints of its plans, the forecast says again: the same time and memory, to the digit."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from perfcast.cli.main import cli

ROOF = "--cost-model roofline"
FEW = "--fix cp=1,offload=none,order=tp-cp-dp-pp"
SHORT = "--sequence-length 256"
#: Most searches are of this: little, and priced by formula.
GPT = f"gpt2 --cluster dgx-h100:8 --global-batch-size 16 {SHORT} {ROOF}"
LLAMA = f"llama3.2-1b --cluster dgx-h100:8 --global-batch-size 8 {SHORT} {ROOF}"
#: Searches for training: models, experts among them, clusters, formats, optimizers, frameworks, methods.
TRAININGS = (
    f"gpt2 --cluster dgx-h100:8 --global-batch-size 32 {SHORT} {ROOF} {FEW}",
    f"gpt2 --cluster dgx-h100:8 --global-batch-size 32 {SHORT} {ROOF} {FEW} --no-simulate",
    f"gpt2 --cluster dgx-a100:16 --global-batch-size 32 {SHORT} {ROOF} {FEW} --fix mbs=1 --dtype fp16",
    f"gpt2 --cluster mi300x:8 --global-batch-size 16 {SHORT} {ROOF} {FEW} --fix tp=1 --dtype fp32",
    f"gpt2 --cluster dgx-h100:8 --global-batch-size 16 {SHORT} {FEW} --fix tp=2,mbs=1",
    f"{GPT} {FEW} --framework fsdp",
    f"{GPT} {FEW} --framework fsdp --fix zero=2,pp=2",
    f"{GPT} {FEW} --framework torchtitan --fix tp=2",
    f"{GPT} {FEW} --framework torchtitan --fix recompute=selective,zero=3",
    f"{GPT} {FEW} --framework deepspeed --fix pp=1",
    f"{GPT} --framework pytorch",
    f"{GPT} --framework pytorch --no-simulate",
    f"{GPT} --framework pytorch --compile",
    f"{GPT} {FEW} --framework fsdp --fix zero=3,tp=1,pp=1 --compile",
    f"{GPT} --framework nanotron --fix pp=2,cp=1",
    f"{GPT} {FEW} --framework megatron_local",
    f"{GPT} {FEW} --optimizer sgd --fix zero=0",
    f"{GPT} {FEW} --optimizer adafactor --fix zero=0",
    f"{GPT} {FEW} --fix schedule=dualpipe --any-framework",
    f"{LLAMA} {FEW} --fix tp=2,mbs=1 --lora rank=16",
    f"{LLAMA} {FEW} --fix tp=1,mbs=1 --framework fsdp --qlora rank=8,targets=attention",
    f"{LLAMA} {FEW} --fix tp=2,mbs=1 --freeze embedding,head,layers:0-3",
    f"{LLAMA} {FEW} --fix tp=2,pp=1 --dtype fp8",
    f"{LLAMA} {FEW} --fix tp=2,pp=1 --framework nemo",
    f"{GPT} {FEW} --fix schedule=zero_bubble,pp=4 --any-framework",
    f"{LLAMA} {FEW} --fix vp=2,tp=1",
    f"{LLAMA} --fix offload=optimizer,pp=2,tp=2",
    f"{LLAMA} --fix recompute=full,tp=2,cp=1,pp=4,offload=none",
    f"{LLAMA} {FEW} --fix overlap=none,pp=1",
    f"llama3.2-1b --cluster dgx-h100:8 --global-batch-size 8 --sequence-length 8192 {ROOF} "
    "--fix cp=4,cp_type=ulysses,offload=none,order=tp-cp-dp-pp",
    f"llama3.2-1b --cluster gb200-nvl72:8 --global-batch-size 8 {SHORT} {ROOF} {FEW} --fix mbs=1",
    f"llama3.2-1b --cluster dgx-h100:4,dgx-a100:4 --global-batch-size 8 {SHORT} {ROOF} {FEW} --no-simulate",
    f"mixtral-8x7b --cluster dgx-h100:16 --global-batch-size 16 {SHORT} {ROOF} {FEW} --fix pp=2,ep=8",
    f"mixtral-8x7b --cluster dgx-h100:32 --global-batch-size 32 {SHORT} {ROOF} {FEW} --fix tp=2,mbs=1 "
    "--no-simulate",
    f"llama3-8b --cluster dgx-h100:16 --global-batch-size 16 {SHORT} {FEW} --fix tp=2,pp=2 --no-simulate",
)


#: Searches for inference: modes, formats of weights and cache, experts, limits.
SERVING = (
    f"llama3-8b --cluster dgx-h100:4 --mode decode --sequence-length 1024 {ROOF} --fix dp=1,ep=1",
    f"llama3-8b --cluster dgx-h100:2 --mode prefill --sequence-length 1024 {ROOF} --global-batch-size 4",
    f"llama3-8b --cluster dgx-h100:2 --mode decode --sequence-length 1024 {ROOF} --dtype fp8 "
    "--kv-cache-dtype fp8 --global-batch-size 16",
    "llama3-8b --cluster dgx-h100:2 --mode decode --sequence-length 1024 --fix pp=2 --global-batch-size 8",
    "llama3-8b --cluster dgx-h100:2 --mode decode --sequence-length 1024 --framework sglang --fix tp=2 "
    "--global-batch-size 8",
    f"mixtral-8x7b --cluster dgx-h100:4 --mode decode --sequence-length 512 {ROOF} --global-batch-size 8",
    f"llama3-8b --cluster mi300x:2 --mode decode --sequence-length 2048 {ROOF} --max-tpot 50ms "
    "--max-ttft 10s --global-batch-size 32",
)


def asked(text: str) -> dict[str, Any]:
    """What a command of perfcast answers in JSON."""
    found = CliRunner().invoke(cli, [*shlex.split(text), "--json", "-"])
    assert found.exit_code == 0, found.output
    data: dict[str, Any] = json.loads(found.stdout)
    return data


def check_again(command: str, seconds: float, device_bytes: float) -> None:
    program, _, rest = command.partition(" ")
    assert program == "perfcast"
    again = asked(rest)
    assert again["step_seconds"] == seconds
    assert again["memory"]["device_bytes"] == device_bytes


@pytest.mark.parametrize("options", TRAININGS)
def test_the_first_and_the_last_plan_of_a_search_take_the_same_when_they_are_forecast(options: str):
    few = "" if "--no-simulate" in options else "--num-simulated 6"
    data = asked(f"search {options} --processes 1 --top 4 {few}")
    result = next(one for one in data["clusters"] if one["asked"].startswith(data["best_cluster"]))["result"]
    first, last = result["ranked"][0], result["ranked"][-1]
    assert data["best_command"] == first["command"]
    assert data["explanations"][0]["step_seconds"] == first["step_seconds"]
    for plan in (first, last):
        check_again(plan["command"], plan["step_seconds"], plan["device_memory_bytes"])
    if result["variants"]:
        variant = result["variants"][-1]
        figures = variant["figures"]
        check_again(variant["command"], figures["step_seconds"], figures["device_memory_bytes"])


@pytest.mark.parametrize("options", SERVING)
def test_plans_and_batches_of_inference_take_the_same_when_they_are_forecast(options: str):
    data = asked(f"search {options}")
    result, key = data["clusters"][0], "token" if "decode" in options else "first_token"
    for choice in (result["ranked"][0], result["ranked"][-1]):
        check_again(choice["command"], choice[key]["seconds"], choice["memory_bytes"])
