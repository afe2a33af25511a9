"""Curves: training on more devices, serving more sequences, collectives of more bytes, limits of scale."""

from __future__ import annotations

from golden.ask import Case
from golden.figures import fingerprint, numbers

_SERVED = "scale @gpt --cost-model roofline --cluster dgx-h100"
_GPT = f"{_SERVED} --sequence-length 256"
_COST = "mesh cost --cluster dgx-h100:32 --mesh dp=4,tp=8"
_ONE_SIZE = "--bytes 16MiB --json -"

CASES = {
    name: Case(f"{command} --json -", fingerprint)
    for name, command in {
        "strong": f"{_GPT} --devices 8,16,32,64 --batch-size 64 --plan tp=2",
        "weak": f"{_GPT} --devices 8,16,32,64 --batch-size 64 --plan tp=2 --weak",
        "plan that fits": f"{_GPT} --devices 8,16 --batch-size 64",
        "played": f"{_GPT} --devices 8,16 --batch-size 64 --plan pp=4 --simulate",
        "two clusters": f"{_GPT} --cluster dgx-a100 --devices 8,16 --batch-size 64",
        "learned": "scale @llama --cluster dgx-h100 --devices 8,32 --batch-size 64 --framework fsdp",
        "prefill": f"{_SERVED} --mode prefill --devices 4 --plan tp=2 --batch-sizes 1,8 --contexts 128,256",
        "decode": f"{_SERVED} --mode decode --devices 4 --plan tp=2 --batch-sizes 1,8,64 --contexts 128,256",
        "serve": f"{_SERVED} --mode serve --devices 4 --plan tp=2 --batch-sizes 1,8 --contexts 128",
        "limits": "scale --limits --assume sparsity=1",
        "collectives of many sizes": f"{_COST} --collective all_reduce --bytes 1KB..1GB",
    }.items()
}
CASES |= {
    f"{collective} over {axes}": Case(f"{_COST} --collective {collective} --axes {axes} {_ONE_SIZE}", numbers)
    for collective, axes in (
        ("all_reduce", "tp"), ("all_reduce", "dp"), ("all_reduce", "dp,tp"), ("all_gather", "tp"),
        ("all_gather", "dp"), ("reduce_scatter", "dp,tp"), ("all_to_all", "tp"), ("all_to_all", "dp,tp"),
        ("broadcast", "dp"), ("send", "dp"),
    )
}  # fmt: skip
CASES |= {
    "ring": Case(f"{_COST} --collective all_reduce --algorithm ring {_ONE_SIZE}", numbers),
    "tree": Case(f"{_COST} --collective all_reduce --algorithm tree {_ONE_SIZE}", numbers),
    "best": Case(f"{_COST} --collective all_reduce --algorithm best {_ONE_SIZE}", numbers),
    "torus": Case(
        f"mesh cost --cluster tpu-v4:64 --mesh a=4,b=4,c=4 --collective all_reduce --axes a,b {_ONE_SIZE}",
        numbers,
    ),
    "flows of a fat tree": Case(
        f"{_COST} --collective all_reduce --axes dp "
        f"--network fat-tree:radix=16,oversubscription=2 {_ONE_SIZE}",
        numbers,
    ),
    "flows through a star": Case(
        f"{_COST} --collective all_to_all --axes tp --network star {_ONE_SIZE}", numbers
    ),
}
