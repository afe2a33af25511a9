"""A fingerprint of the JSON of every verb that has one and measures nothing."""

from __future__ import annotations

from typing import Any

from golden.ask import Case
from golden.figures import fingerprint


def _without_this_machine(data: Any) -> dict[str, Any]:
    """Devices of the catalog: the last row is the processor here."""
    return fingerprint({"devices": [row for row in data["devices"] if row["name"] != "cpu"]})


_GPT2 = "@gpt --sequence-length 128"
_PLAN = "--plan tp=2,pp=2,dp=2 --batch-size 16"

CASES = {
    name: Case(f"{command} --json -", fingerprint)
    for name, command in {
        "predict": f"predict {_GPT2} --device h100-sxm --cost-model roofline",
        "predict, learned": f"predict {_GPT2} --device h100-sxm --dtype bf16 --batch-size 4",
        "predict, a plan": f"predict @llama --cost-model roofline --cluster dgx-h100:8 {_PLAN}",
        "predict, a run": (
            "predict @llama --cost-model roofline --cluster dgx-h100:8 --plan dp=8 "
            "--batch-size 64 --tokens 1e12 "
            "--mtbf 50000"
        ),
        "predict, stragglers": (
            f"predict @gpt --cost-model roofline --cluster dgx-h100:8 {_PLAN} --stragglers lognormal:0.02"
        ),
        "predict, dlrm": "predict dlrm-small --cost-model roofline --cluster dgx-a100:4 --batch-size 1024",
        "memory": f"memory {_GPT2} --device a100-sxm-80gb",
        "memory, closed form": f"memory {_GPT2} --device a100-sxm-80gb --closed-form",
        "memory, fit": "memory gpt2 --device t4 --dtype fp16 --sequence-length 1024 --batch-size 64 --fit",
        "memory, a plan": f"memory @llama --device h100-sxm --devices 8 {_PLAN}",
        "search": (
            "search @gpt --sequence-length 256 --cost-model roofline --cluster dgx-h100:4 "
            "--global-batch-size 8 "
            "--processes 1 --top 5 --num-simulated 5 --fix cp=1"
        ),
        "search, decode": (
            "search @llama --sequence-length 512 --cost-model roofline --cluster dgx-h100:4 --mode decode "
            "--global-batch-size 64 --max-tpot 50ms --top 5"
        ),
        "shard": "shard @tables.csv --cluster dgx-h100:4",
        "scale": "scale @gpt --cost-model roofline --cluster dgx-h100 --devices 8,16 --batch-size 64",
        "scale, serve": (
            "scale @gpt --cost-model roofline --cluster dgx-h100 --mode serve --devices 2 --plan tp=2 "
            "--batch-sizes 1,4 --contexts 128"
        ),
        "serving": (
            "serving llama3-8b --cost-model roofline --cluster dgx-h100:4 --plan tp=2 "
            "--input-length uniform:1024:0.2 --output-length 64 --concurrency 16 --num-requests 100 "
            "--price 2.5 --max-ttft 100ms --max-tpot 20ms"
        ),
        "serving, two pools": (
            "serving mixtral-8x7b --cost-model roofline --cluster dgx-h100:8 --prefill-plan tp=4 "
            "--decode-plan dp=4,ep=4 --framework sglang --input-length 512 --output-length 32 "
            "--request-rate 20 --num-requests 100"
        ),
        "mesh cost": "mesh cost --cluster dgx-h100:16 --collective all_gather --bytes 1MB..64MB",
        "mesh cost, flows": (
            "mesh cost --cluster dgx-h100:16 --mesh dp=2,tp=8 --collective all_reduce "
            "--axes dp --network star "
            "--bytes 16MiB"
        ),
        "mesh profile": "mesh profile --from-log @nccl.log --output @profile.json",
        "mesh discover": "mesh discover --synthetic 16 --seed 1",
        "mesh discover, topology": "mesh discover --topology @topology.txt",
        "trace info": "trace info @rank0.json @before.json",
        "trace explain": "trace explain @rank0.json @rank1.json",
        "trace forecast": "trace forecast @rank0.json @rank1.json --what-if speed:gemm=2",
        "trace chakra": "trace chakra @rank0.json @rank1.json --out @written",
        "trace link": "trace link @nodes.json @nodes_timeline.json",
        "data summary": "data summary --data @measured",
        "validate kernels": "validate kernels --data @measured --predictor roofline --predictor learned",
        "catalog clusters": "catalog clusters",
        "catalog models": "catalog models",
        "catalog predictors": "catalog predictors",
        "catalog predictors, learned": "catalog predictors learned",
    }.items()
}
CASES["catalog devices"] = Case("catalog devices --json -", _without_this_machine)
