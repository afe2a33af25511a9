"""Steps under plans: schedules × frameworks × ZeRO stages × modes, each played by events and by formula."""

from __future__ import annotations

from golden.ask import Case
from golden.figures import plan_forecast

_GPT = "predict @gpt --sequence-length 256 --cost-model roofline"
_LLAMA = "predict @llama --sequence-length 512 --cost-model roofline"
_MIXTURE = "predict @mixture --sequence-length 256 --cost-model roofline"
_H100, _A100 = "--cluster dgx-h100", "--cluster dgx-a100"

_COMMANDS = {
    # Schedules, with every stage of ZeRO that goes with them.
    "1f1b, megatron": f"{_GPT} {_H100}:8 --plan tp=2,pp=2,dp=2 --batch-size 16 --framework megatron",
    "1f1b, megatron, zero 1": f"{_GPT} {_H100}:8 --plan tp=2,pp=2,dp=2,zero=1 --batch-size 16",
    "1f1b, megatron, zero 2": f"{_GPT} {_H100}:8 --plan pp=4,dp=2,zero=2 --batch-size 16",
    "1f1b, fsdp, zero 3": f"{_GPT} {_H100}:8 --plan pp=2,dp=4,zero=3 --batch-size 16 --framework fsdp",
    "gpipe, megatron": f"{_GPT} {_H100}:4 --plan pp=4,schedule=gpipe --batch-size 8 --framework megatron",
    "gpipe, deepspeed, zero 1": (
        f"{_GPT} {_A100}:16 --plan tp=2,pp=4,dp=2,zero=1,schedule=gpipe --batch-size 32 --framework deepspeed"
    ),
    "gpipe, nanotron": (
        f"{_LLAMA} {_H100}:8 --plan pp=4,dp=2,schedule=gpipe --batch-size 16 "
        "--framework nanotron"
    ),
    "interleaved, megatron": f"{_GPT} {_H100}:8 --plan pp=4,dp=2,vp=2 --batch-size 16 --framework megatron",
    "interleaved, megatron, zero 1": f"{_LLAMA} {_H100}:16 --plan tp=2,pp=4,dp=2,vp=2,zero=1 --batch-size 16",
    "interleaved, uneven": f"{_GPT} {_H100}:2 --plan pp=2,vp=2,stages=3/2/2/1 --batch-size 8",
    "zero bubble": f"{_GPT} {_H100}:8 --plan pp=4,dp=2,schedule=zero_bubble --batch-size 16",
    "zero bubble, fsdp, zero 2": (
        f"{_LLAMA} {_H100}:8 --plan pp=2,dp=4,schedule=zero_bubble,zero=2 --batch-size 16 --framework fsdp"
    ),
    "dualpipe": f"{_GPT} {_H100}:4 --plan pp=4,schedule=dualpipe --batch-size 16",
    "dualpipe, experts": (
        f"{_MIXTURE} {_H100}:16 --plan pp=4,dp=4,ep=4,schedule=dualpipe,overlap=gradients+weights+experts "
        "--batch-size 32"
    ),
    "uneven stages": f"{_GPT} {_H100}:4 --plan pp=4,stages=3/2/2/1 --batch-size 8",
    # Frameworks and ZeRO without a pipeline.
    "pytorch, data parallel": f"{_GPT} {_A100}:8 --plan dp=8 --batch-size 32 --framework pytorch",
    "pytorch, accumulated": (
        f"{_GPT} {_A100}:8 --plan dp=8 --batch-size 64 --micro-batch-size 2 "
        "--framework pytorch"
    ),
    "deepspeed, zero 0": f"{_GPT} {_A100}:8 --plan dp=8 --batch-size 16 --framework deepspeed",
    "deepspeed, zero 1": f"{_GPT} {_A100}:8 --plan dp=8,zero=1 --batch-size 16 --framework deepspeed",
    "deepspeed, zero 2": f"{_GPT} {_A100}:8 --plan dp=8,zero=2 --batch-size 16 --framework deepspeed",
    "deepspeed, zero 3": f"{_GPT} {_A100}:8 --plan dp=8,zero=3 --batch-size 16 --framework deepspeed",
    "fsdp, zero 2": f"{_LLAMA} {_H100}:16 --plan dp=16,zero=2 --batch-size 16 --framework fsdp",
    "fsdp, zero 3": f"{_LLAMA} {_H100}:16 --plan dp=16,zero=3 --batch-size 16 --framework fsdp",
    "fsdp, zero 3, hybrid": (
        f"{_LLAMA} {_H100}:16 --plan dp=16,zero=3,shards=8 --batch-size 16 "
        "--framework fsdp"
    ),
    "fsdp, zero 3, kept": (
        f"{_LLAMA} {_H100}:8 --plan dp=8,zero=3,reshard=0,prefetch=2 --batch-size 32 --micro-batch-size 2 "
        "--framework fsdp"
    ),
    "fsdp, zero 3, tensor": f"{_LLAMA} {_H100}:16 --plan tp=2,dp=8,zero=3 --batch-size 16 --framework fsdp",
    "nanotron, tensor": f"{_LLAMA} {_H100}:8 --plan tp=4,dp=2,zero=1 --batch-size 8 --framework nanotron",
    "nanotron, pipeline": f"{_LLAMA} {_H100}:8 --plan tp=2,pp=2,dp=2 --batch-size 8 --framework nanotron",
    "megatron, tensor across nodes": f"{_LLAMA} {_A100}:16 --plan tp=8,dp=2,order=dp-cp-tp-pp --batch-size 8",
    "megatron, no sequence parallel": f"{_GPT} {_H100}:8 --plan tp=8,sp=0 --batch-size 4",
    "megatron, tensor overlapped": (
        f"{_GPT} {_H100}:8 --plan tp=4,dp=2,overlap=tensor+gradients "
        "--batch-size 8"
    ),
    "megatron, nothing overlapped": f"{_GPT} {_H100}:8 --plan dp=8,zero=1,overlap=none --batch-size 16",
    "megatron, small buckets": f"{_GPT} {_H100}:8 --plan dp=8,bucket=1MB --batch-size 16",
    "two-dimensional tensor": f"{_LLAMA} {_H100}:4 --plan tp=4,tp_inputs=2 --batch-size 4",
    # Long sequences.
    "context, ring": f"{_LLAMA} {_H100}:8 --plan cp=4,dp=2 --batch-size 4",
    "context, ulysses": f"{_LLAMA} {_H100}:8 --plan cp=4,dp=2,cp_type=ulysses --batch-size 4",
    "context, gathered": f"{_LLAMA} {_H100}:8 --plan cp=2,tp=2,dp=2,cp_type=all_gather --batch-size 4",
    # Experts.
    "experts": f"{_MIXTURE} {_H100}:8 --plan dp=8,ep=8 --batch-size 16",
    "experts, tensor": f"{_MIXTURE} {_H100}:8 --plan tp=2,dp=4,ep=4,etp=2 --batch-size 8",
    "experts, capacity, imbalance": (
        f"{_MIXTURE} {_H100}:8 --plan dp=8,ep=4,capacity=1.25,imbalance=1.5 --batch-size 16"
    ),
    "experts, pipeline": f"{_MIXTURE} {_H100}:8 --plan pp=2,dp=4,ep=2,zero=1 --batch-size 16",
    # What is computed again or moved away.
    "recompute, full": f"{_LLAMA} {_H100}:4 --plan tp=2,dp=2,recompute=full --batch-size 8",
    "recompute, selective": (
        f"{_GPT} {_H100}:4 --plan tp=4,recompute=selective --batch-size 8 "
        "--attention eager"
    ),
    "recompute, some layers": (
        f"{_LLAMA} {_H100}:4 --plan pp=2,dp=2,recompute=full,recompute_layers=2 "
        "--batch-size 8"
    ),
    "offload, optimizer": (
        f"{_LLAMA} {_A100}:4 --plan dp=4,zero=2,offload=optimizer --batch-size 4 "
        "--framework deepspeed"
    ),
    "offload, parameters": (
        f"{_LLAMA} {_A100}:4 --plan dp=4,zero=3,offload=parameters --batch-size 4 "
        "--framework deepspeed"
    ),
    "offload, activations": (
        f"{_LLAMA} {_H100}:4 --plan dp=4,offload=activations --batch-size 4 "
        "--framework deepspeed"
    ),
    # Formats, optimizers, other devices, other models.
    "fp8": f"{_LLAMA} {_H100}:4 --plan tp=2,dp=2 --batch-size 8 --dtype fp8",
    "fp32, momentum": f"{_GPT} {_A100}:4 --plan dp=4 --batch-size 8 --dtype fp32 --optimizer momentum",
    "eight-bit adamw": f"{_GPT} {_H100}:4 --plan dp=4 --batch-size 8 --optimizer adamw_8bit --framework fsdp",
    "muon": f"{_GPT} {_H100}:4 --plan dp=4 --batch-size 8 --optimizer muon --framework megatron",
    "amd": f"{_GPT} --cluster mi300x:16 --plan tp=4,dp=4 --batch-size 16",
    "tpu": f"{_GPT} --cluster tpu-v4:16 --plan tp=4,dp=4 --batch-size 16",
    "ethernet": f"{_GPT} --cluster hgx-h100-ethernet:16 --plan dp=16 --batch-size 32 --framework pytorch",
    "learned": (
        "predict @llama --sequence-length 512 --cluster dgx-h100:8 --plan tp=2,pp=2,dp=2 "
        "--batch-size 16"
    ),
    "learned, experts": (
        "predict @mixture --sequence-length 256 --cluster dgx-a100:8 --plan dp=8,ep=8 "
        "--batch-size 16"
    ),
    "latent attention": (
        "predict deepseek-v2 --sequence-length 1024 --cost-model roofline --cluster dgx-h100:32 "
        "--plan tp=2,pp=4,dp=4,ep=8 --batch-size 16"
    ),
    "captured": (
        "predict bert-base --sequence-length 128 --cost-model roofline --cluster dgx-a100:4 --plan tp=2,dp=2 "
        "--batch-size 8"
    ),
    "stragglers": f"{_GPT} {_H100}:8 --plan pp=4,dp=2 --batch-size 16 --stragglers lognormal:0.02",
    "a whole run": (
        f"{_LLAMA} {_H100}:8 --plan dp=8,zero=1 --batch-size 64 --tokens 1e12 --mtbf 50000 --restart 10 "
        "--checkpoint-bandwidth 20 --price 2.5"
    ),
    # Inference.
    "prefill, tensor": f"{_LLAMA} {_H100}:4 --mode prefill --plan tp=4 --batch-size 4",
    "prefill, pipeline": (
        f"{_LLAMA} {_H100}:4 --mode prefill --plan tp=2,pp=2 --batch-size 8 "
        "--micro-batch-size 2"
    ),
    "prefill, experts": f"{_MIXTURE} {_H100}:4 --mode prefill --plan dp=4,ep=4 --batch-size 8",
    "prefill, vllm": (
        "predict @llama --sequence-length 512 --cluster dgx-h100:2 --mode prefill --plan tp=2 --batch-size 4 "
        "--framework vllm"
    ),
    "decode, tensor": f"{_LLAMA} {_H100}:4 --mode decode --plan tp=4 --batch-size 16",
    "decode, pipeline": f"{_LLAMA} {_H100}:4 --mode decode --plan pp=4 --batch-size 16",
    "decode, experts": f"{_MIXTURE} {_H100}:4 --mode decode --plan dp=4,ep=4 --batch-size 16",
    "decode, replicas": f"{_GPT} {_A100}:4 --mode decode --plan dp=4 --batch-size 64",
    "decode, sglang": (
        "predict @llama --sequence-length 512 --cluster dgx-h100:2 --mode decode --plan tp=2 --batch-size 16 "
        "--framework sglang"
    ),
}  # fmt: skip

CASES = {name: Case(f"{command} --json -", plan_forecast) for name, command in _COMMANDS.items()}
#: No events are played: formulas.
CASES |= {
    f"{name} (closed form)": Case(f"{command} --closed-form --json -", plan_forecast)
    for name, command in _COMMANDS.items()
    if "--stragglers" not in command
}
