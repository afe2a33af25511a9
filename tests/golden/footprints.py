"""Terms of the memory of plans: every term of every moment, by name."""

from __future__ import annotations

from golden.ask import Case
from golden.figures import footprint

_LLAMA = "memory @llama --device h100-sxm --sequence-length 512"
_GPT = "memory @gpt --device a100-sxm-80gb --sequence-length 256"
_MIXTURE = "memory @mixture --device h100-sxm --sequence-length 256"

_COMMANDS = {
    **{
        f"{framework}, zero {zero}": (
            f"{_LLAMA} --devices 8 --plan dp=8,zero={zero} --batch-size 16 --framework {framework}"
        )
        for framework, stages in {
            "pytorch": (0,), "fsdp": (2, 3), "megatron": (0, 1, 2), "nanotron": (0, 1),
            "deepspeed": (0, 1, 2, 3),
        }.items()
        for zero in stages
    },
    "megatron, tensor, no sequence parallel": f"{_GPT} --devices 8 --plan tp=8,sp=0 --batch-size 8",
    "megatron, tensor, pipeline": f"{_GPT} --devices 8 --plan tp=2,pp=4 --batch-size 8 --micro-batch-size 1",
    "megatron, interleaved": f"{_GPT} --devices 4 --plan pp=4,vp=2 --batch-size 8 --micro-batch-size 1",
    "megatron, zero bubble": (
        f"{_GPT} --devices 4 --plan pp=4,schedule=zero_bubble --batch-size 8 "
        "--micro-batch-size 1"
    ),
    "megatron, dualpipe": (
        f"{_GPT} --devices 4 --plan pp=4,schedule=dualpipe --batch-size 8 "
        "--micro-batch-size 1"
    ),
    "megatron, gpipe": f"{_GPT} --devices 4 --plan pp=4,schedule=gpipe --batch-size 8 --micro-batch-size 1",
    "nanotron, tensor, pipeline": (
        f"{_LLAMA} --devices 8 --plan tp=2,pp=2,dp=2 --batch-size 8 --micro-batch-size 1 --framework nanotron"
    ),
    "context": f"{_LLAMA} --devices 8 --plan cp=4,dp=2 --batch-size 4",
    "context, ulysses": f"{_LLAMA} --devices 8 --plan cp=4,dp=2,cp_type=ulysses --batch-size 4",
    "experts": f"{_MIXTURE} --devices 8 --plan dp=8,ep=8 --batch-size 16",
    "experts, tensor, capacity": (
        f"{_MIXTURE} --devices 8 --plan tp=2,dp=4,ep=4,etp=2,capacity=1.25 "
        "--batch-size 8"
    ),
    "experts, fsdp": f"{_MIXTURE} --devices 8 --plan dp=8,zero=3 --batch-size 16 --framework fsdp",
    "recompute, full": f"{_LLAMA} --devices 4 --plan tp=2,dp=2,recompute=full --batch-size 8",
    "recompute, selective": (
        f"{_GPT} --devices 4 --plan dp=4,recompute=selective --batch-size 8 --framework megatron "
        "--attention eager"
    ),
    "recompute, some layers": (
        f"{_LLAMA} --devices 4 --plan dp=4,recompute=full,recompute_layers=3 --batch-size 8 "
        "--framework megatron"
    ),
    "offload, optimizer": (
        f"{_LLAMA} --devices 4 --plan dp=4,zero=2,offload=optimizer --batch-size 4 "
        "--framework deepspeed"
    ),
    "offload, parameters": (
        f"{_LLAMA} --devices 4 --plan dp=4,zero=3,offload=parameters --batch-size 4 "
        "--framework deepspeed"
    ),
    "hybrid shards": (
        f"{_LLAMA} --devices 8 --plan dp=8,zero=3,shards=4,prefetch=2 --batch-size 8 "
        "--framework fsdp"
    ),
    "fp8": f"{_LLAMA} --devices 4 --plan tp=2,dp=2 --batch-size 8 --dtype fp8",
    "fp32, sgd": f"{_GPT} --devices 4 --plan dp=4 --batch-size 8 --dtype fp32 --optimizer sgd",
    "adafactor": f"{_GPT} --devices 4 --plan dp=4 --batch-size 8 --optimizer adafactor --framework deepspeed",
    "muon": f"{_GPT} --devices 4 --plan dp=4 --batch-size 8 --optimizer muon --framework megatron",
    "eight-bit adamw": (
        f"{_GPT} --devices 4 --plan dp=4 --batch-size 8 --optimizer adamw_8bit "
        "--framework fsdp"
    ),
    "latent attention": (
        "memory deepseek-v2 --device h100-sxm --sequence-length 1024 --devices 32 "
        "--plan tp=2,pp=4,dp=4,ep=8 --batch-size 16 --micro-batch-size 1"
    ),
    "prefill": f"{_LLAMA} --devices 4 --mode prefill --plan tp=4 --batch-size 4",
    "decode": f"{_LLAMA} --devices 4 --mode decode --plan tp=2,pp=2 --batch-size 16",
    "decode, experts": f"{_MIXTURE} --devices 4 --mode decode --plan dp=4,ep=4 --batch-size 16",
}  # fmt: skip

CASES = {name: Case(f"{command} --json -", footprint) for name, command in _COMMANDS.items()}
