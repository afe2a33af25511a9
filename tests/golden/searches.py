"""Winners of searches and their order: objectives, modes, comparisons, sensitivity."""

from __future__ import annotations

from golden.ask import Case
from golden.figures import fingerprint, search, serving

_GPT = "search @gpt --sequence-length 256 --cost-model roofline"
#: Enough plans that every dimension has a say, few enough to be quick.
_FEW = f"{_GPT} --cluster dgx-h100:4 --global-batch-size 8 --processes 1 --top 5 --num-simulated 5"
_LLAMA = "search @llama --sequence-length 512 --cost-model roofline --processes 1"
_SERVING = "search @llama --sequence-length 512 --cost-model roofline --cluster dgx-h100:4"

_COMMANDS = {
    "time": _FEW,
    "time, formulas alone": (
        f"{_GPT} --cluster dgx-h100:8 --global-batch-size 16 --processes 1 --fix cp=1 --no-simulate"
    ),
    "tokens per second": f"{_FEW} --objective tokens-per-second --min-mfu 0.0001",
    "energy": f"{_FEW} --objective energy-per-token",
    "time to train": f"{_FEW} --objective time-to-train --tokens 1e9",
    "fewest devices": f"{_FEW} --objective devices --tokens 1e9 --deadline 30d",
    "fixed": f"{_FEW} --fix tp=2,zero=1",
    "little memory": f"{_FEW} --max-memory-fraction 0.03",
    "fsdp": f"{_FEW} --framework fsdp",
    "deepspeed": f"{_FEW} --framework deepspeed",
    "experts": (
        "search @mixture --sequence-length 256 --cost-model roofline "
        "--cluster dgx-h100:4 --global-batch-size 8 "
        "--processes 1 --top 5 --num-simulated 5 --fix pp=1"
    ),
    "learned": (
        "search @llama --sequence-length 512 --cluster dgx-a100:4 "
        "--global-batch-size 16 --processes 1 --top 5 "
        "--num-simulated 5 --fix cp=1"
    ),
    "two clusters": (
        f"{_LLAMA} --cluster dgx-h100:4,dgx-a100:4 --global-batch-size 8 --top 3 --num-simulated 3"
    ),
}

CASES = {name: Case(f"{command} --json -", search) for name, command in _COMMANDS.items()}
CASES |= {
    "prefill": Case(
        f"{_SERVING} --mode prefill --global-batch-size 16 --max-ttft 1s --top 5 --json -", serving
    ),
    "decode": Case(
        f"{_SERVING} --mode decode --global-batch-size 64 --max-tpot 50ms --top 5 --json -", serving
    ),
}
CASES |= {
    name: Case(f"{command} --json -", fingerprint)
    for name, command in {
        "compared": f"{_FEW} --compare tp=4,mbs=1 --compare pp=2,zero=1,mbs=1",
        "sensitivity": f"{_FEW} --sensitivity --fix pp=1,cp=1",
        "rival": (
            "search @gpt --sequence-length 256 --cluster dgx-h100:4 --global-batch-size 16 --processes 1 "
            "--cost-model searcher-3d"
        ),
        "a sweep": (
            "search @gpt @llama --sequence-length 256 --cost-model roofline --cluster dgx-h100:4 "
            "--global-batch-size 8,16 --top 2 --fix cp=1,pp=1"
        ),
    }.items()
}
