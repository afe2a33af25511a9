"""Questions at random: fields of a verb, filled with what is usual, what nearly is, and noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.documents import HOSTILE, MARK, as_json
from fuzz.target import GRAMMAR, Draw, is_whole
from perfcast.verbs.question import FieldKind, field_kinds, question_class

ROOT = Path(__file__).resolve().parents[2]
SMALL = str(ROOT / "examples/small_llama.json")

#: Verb → questions that are answered soon; drawn ones differ from them in some fields.
GOOD: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "predict": (
        {"model": "llama3-8b", "cluster": "dgx-h100:8", "plan": "tp=2", "batch_size": 8, "closed_form": True},
        {
            "model": SMALL,
            "cluster": "dgx-a100:4",
            "plan": "dp=2,pp=2",
            "batch_size": 8,
            "sequence_length": 128,
        },
        {"model": "gpt2", "device": "h100-sxm", "mode": "train", "batch_size": 2, "sequence_length": 128},
        {"model": "llama3-8b", "device": "b200", "mode": "decode", "batch_size": 2, "framework": "vllm"},
    ),
    "memory": (
        {"model": "llama3-8b", "device": "h100-sxm", "devices": 8, "plan": "tp=2,zero=1", "batch_size": 8},
        {"model": "llama3-8b", "device": "a100-80gb", "mode": "prefill", "batch_size": 2},
    ),
    "serving": (
        {
            "model": "llama3-8b",
            "device": "h100-sxm",
            "request_rate": 2,
            "num_requests": 20,
            "input_length": 64,
            "output_length": 8,
            "method": "closed-form",
        },
        {
            "model": SMALL,
            "device": "h100-sxm",
            "concurrency": 4,
            "num_requests": 16,
            "input_length": "128",
            "output_length": "16",
        },
    ),
    "search": (
        {"model": SMALL, "cluster": "dgx-h100:4", "global_batch_size": 8, "sequence_length": 128, "top": 2},
    ),
    "scale": (
        {"model": "llama3-8b", "cluster": "dgx-h100", "devices": [8, 16], "plan": "tp=2", "batch_size": 64},
    ),
    "replay": ({"traces": ["missing.json"], "steps": "1:2", "emulate": "dgx-h100:8"},),
    "mesh cost": (
        {"cluster": "dgx-h100:16", "collective": "all_reduce", "bytes": "1MB..8MB"},
        {
            "cluster": "dgx-a100:16",
            "mesh": "dp=2,tp=8",
            "axes": "tp",
            "collective": "all_gather",
            "bytes": "1MiB",
            "network": "fat-tree:radix=64",
        },
    ),
    "shard": ({"tables": str(ROOT / "examples/tables.csv"), "cluster": "dgx-h100:2", "batch_size": 1024},),
    "trace info": ({"paths": ["missing.json"]},),
    "trace explain": ({"traces": ["missing.json"]},),
    "trace forecast": ({"traces": ["missing.json"], "device": "h100-sxm", "what_if": ["overlap"]},),
}

#: What fields of some names are usually given, of any verb.
USUAL: Mapping[str, Sequence[Any]] = {
    "model": (
        SMALL,
        "llama3-8b",
        "gpt2",
        "mixtral-8x7b",
        "dlrm-dcnv2",
        "deepseek-v3",
        "resnet50",
        "bert-large",
        "timm:resnet18",
        "missing.py:build",
        "x.json",
        str(ROOT),
    ),
    "device": ("h100-sxm", "a100-80gb", "b200", "mi300x", "cpu", "epyc-7742", "tpu-v5p", "h1oo"),
    "cluster": (
        "dgx-h100:8",
        "dgx-a100:16",
        "gb200-nvl72/36:72",
        "dgx-h100:0",
        "dgx-h100:7",
        "dgx-h100",
        "x:8",
        "dgx-h100:1000000000",
        "dgx-h100/0:8",
        "dgx-h100:-8",
        "dgx-h100:٣",
    ),
    "plan": (
        "tp=2",
        "tp=2,pp=2",
        "dp=2,zero=3",
        "cp=2",
        "ep=2",
        "pp=2,vp=2,schedule=interleaved",
        "tp=1000000",
        "tp=3",
        "pp=4,recompute=full",
        "tp=0",
        "zero=9",
        "tp=2,tp=4",
        "stages=1/1",
        "",
    ),
    "dtype": ("bf16", "fp16", "fp32", "fp8", "fp4", "int8", "x"),
    "kv_cache_dtype": ("bf16", "fp8", "x"),
    "framework": ("pytorch", "fsdp", "megatron", "deepspeed", "vllm", "sglang", "trtllm", "torchtitan", "x"),
    "cost_model": ("learned", "roofline", "linear", "neusight", "habitat", "heuristic", "x"),
    "optimizer": ("adamw", "sgd", "adam", "adafactor", "x"),
    "optimizer_implementation": ("foreach", "fused", "for-loop", "banana"),
    "attention": ("flash", "math", "sdpa", "eager", "x"),
    "lora": ("rank=8,targets=q+v", "rank=0", "rank=1e9"),
    "qlora": ("rank=8", "rank=8,base=nf4"),
    "freeze": ("embedding", "layers:0-1", "layers:5-1"),
    "price": ("2.5", "inf", "nan", "-1", "1e400", "x.toml"),
    "stragglers": ("lognormal:0.02", "share:0.01:1.3", "lognormal:inf", "share:2:0.1", "lognormal:1e308"),
    "mtbf": ("30d", "1e-300", "inf", "0"),
    "checkpoint_interval": ("10min", "1e-300", "1e300"),
    "network": (
        "star",
        "fat-tree:radix=64",
        "fat-tree:radix=4,oversubscription=2/1",
        "fat-tree:hop_us=-1",
        "rail-optimised:radix=32",
        "dragonfly:devices=4,routers=4,global=2",
        "torus:shape=4x4",
        "dragonfly:devices=1000000000,routers=1000000000,global=2",
        "torus:shape=1000000000x2",
    ),
    "collective": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "banana"),
    "mesh": ("dp=2,tp=8", "dp=16", "a=1000000000", "dp=2,dp=8", "dp=0"),
    "axes": ("tp", "dp,tp", "dp,dp", "x", ""),
    "algorithm": ("ring", "tree", "auto", "x"),
    "bytes": ("1MB", "1KB..1GB", "0", "1e300GB", "1GB..1KB", "1..1e30"),
    "groups": (1, 2, 99999),
    "host": ("fast", "slow", "epyc-7742", "[red]x[/red]", "\x1b[31mx"),
    "allocator": ("max_split_size_mb:128", "expandable_segments:True", "x:1"),
    "input_length": ("1024", "uniform:1024:0.2", "lognormal:64:9e9", "0", "1e18"),
    "output_length": ("16", "uniform:16:0.2", "1e12"),
    "objective": ("time", "cost", "memory", "x"),
    "fix": ("tp=2", "zero=1,sp=1", "tp=banana"),
    "kinds": ("row_wise", "column_wise,data_parallel", "x"),
    "what_if": ("overlap", "graphs", "speed:aten::mm=2", "host=0", "speed:=nan"),
    "assume": ("batch_exponent=0.33", "x=1", "batch_exponent=inf"),
    "steps": ("1:3", "5", "3:1"),
    "max_bytes": ("1MiB", "1GiB", "0", "9999999999999999"),
    "speculate": ("3:0.7", "0:0", "99999999999:1", "3:nan"),
    "window": ("0:1", "1:0", "nan:inf"),
    "sweep": ("concurrency=1,2", "request_rate=1..4", "x=1"),
    "deadline": ("30d", "0", "1e400"),
    "backend": ("local", "gloo", "nccl", "x"),
    "emulate": ("dgx-h100:8", ":8", "x:1000000000", ":"),
    "reuse": ("5,2,1", "-1", "nan", "1e999"),
}
_COUNTS = (1, 2, 0, -1, 3, 7, 8, 64, 128, 1000, 2**20, 2**31, 2**53, 2**63, 10**18, 10**40)
_NUMBERS = (1, 0.5, 0, -1, 2.5, 1e-9, 1e9, 1e300, -1e300, 1e-320, float("nan"), float("inf"), float("-inf"))
#: Fields that name what would be started or written, or another machine; what they do is no reading.
LEFT_OUT = ("address", "store", "hand_over", "processes", "module", "data", "backend")


def expand(verb: str, data: bytes) -> bytes:
    """Drawn bytes as a question in JSON; a question stays as it is."""
    if is_whole(data):
        return data
    draw = Draw(data.removeprefix(MARK))
    kinds = {name: kind for name, kind in field_kinds(question_class(verb)).items() if name not in LEFT_OUT}
    found = dict(draw.choice(GOOD[verb]))
    for name in [draw.choice(list(kinds)) for _ in range(draw.choice((1, 1, 1, 1, 2, 2, 3, 6)))]:
        if draw.chance(12):
            found.pop(name, None)
        else:
            found[name] = _value(draw, name, kinds[name])
    if draw.chance(3):
        found[draw.choice(("x", "", "mod", "batch"))] = draw.choice(HOSTILE)
    return as_json(found)


def _value(draw: Draw, name: str, kind: FieldKind) -> Any:
    if draw.chance(8):
        return draw.choice(HOSTILE)
    if kind.is_list and not draw.chance(15):
        return [_scalar(draw, name, kind) for _ in range(draw.below(4))]
    return _scalar(draw, name, kind)


def _scalar(draw: Draw, name: str, kind: FieldKind) -> Any:
    if name in USUAL and not draw.chance(15):
        return draw.choice(USUAL[name])
    if kind.words is not None and not draw.chance(10):
        return draw.choice(kind.words)
    if kind.scalar is bool:
        return not draw.chance(20)
    if kind.scalar is int:
        return draw.choice(_COUNTS)
    if kind.scalar is float:
        return draw.choice(_NUMBERS)
    if draw.chance(40):
        return draw.choice(_NUMBERS)
    return "".join(draw.some(GRAMMAR, 6))


@cache
def seeds(verb: str, number: int = 20) -> list[bytes]:
    """Good questions, and bytes that draw others."""
    import random

    drawn = random.Random(verb)
    good = [json.dumps(one).encode() for one in GOOD[verb]]
    return [*good, *(MARK + drawn.randbytes(60) for _ in range(number))]
