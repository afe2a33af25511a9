"""Forecasts of captured steps on one device, asked for in Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.prediction import OneDeviceRequest, Request, predict_one_device

#: Name → (model, device, options).
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2 train bf16": ("gpt2", "h100-sxm", {"batch_size": 4, "dtype": "bf16"}),
    "gpt2 train fp32 eager": ("gpt2", "v100-sxm-32gb", {"sequence_length": 512, "attention": "eager"}),
    "gpt2 train two micro-batches": (
        "gpt2",
        "a100-sxm-80gb",
        {"batch_size": 8, "micro_batch_size": 4, "optimizer_implementation": "fused"},
    ),
    "bert-base train tf32": ("bert-base", "a100-sxm-80gb", {"batch_size": 8, "dtype": "tf32"}),
    "bert-base inference": ("bert-base", "t4", {"mode": "prefill", "batch_size": 16, "dtype": "fp16"}),
    "llama3.2-1b train checkpointed": (
        "llama3.2-1b",
        "h100-sxm",
        {"sequence_length": 1024, "dtype": "bf16", "recompute": "full"},
    ),
    "llama3.2-1b prefill": (
        "llama3.2-1b",
        "l4",
        {"mode": "prefill", "sequence_length": 2048, "dtype": "bf16"},
    ),
    "llama3.2-1b decode": (
        "llama3.2-1b",
        "mi300x",
        {"mode": "decode", "batch_size": 16, "sequence_length": 2048, "dtype": "bf16"},
    ),
    "resnet-50 train": ("resnet-50", "v100-sxm-16gb", {"batch_size": 32, "optimizer": "momentum"}),
    "t5-small train": ("t5-small", "a100-sxm-40gb", {"batch_size": 8, "dtype": "bf16"}),
    "mixtral-8x7b prefill": (
        "mixtral-8x7b",
        "h200-sxm",
        {"mode": "prefill", "sequence_length": 512, "dtype": "bf16"},
    ),
    "gpt2 train bf16, learned": (
        "gpt2",
        "h100-sxm",
        {"batch_size": 4, "dtype": "bf16", "cost_model": "learned"},
    ),
    "gpt2 train bf16 compiled, learned": (
        "gpt2",
        "l40s",
        {"batch_size": 4, "dtype": "bf16", "cost_model": "learned", "compile": True},
    ),
    "bert-base inference, learned": (
        "bert-base",
        "v100-sxm-32gb",
        {"mode": "prefill", "batch_size": 16, "cost_model": "learned"},
    ),
    "llama3.2-1b decode, learned": (
        "llama3.2-1b",
        "b200",
        {
            "mode": "decode",
            "batch_size": 16,
            "sequence_length": 2048,
            "dtype": "bf16",
            "cost_model": "learned",
        },
    ),
    "dlrm-small train": ("dlrm-small", "t4", {"batch_size": 2048, "optimizer": "sgd"}),
}


def _request(model: str, device: str, *, cost_model: str, **options: Any) -> OneDeviceRequest:
    """The model's own modules, in fp32 where nothing is said."""
    workload = Request(model=model, **({"dtype": "fp32"} | options))
    return OneDeviceRequest(workload=workload, device=device, cost_model=cost_model)


@dataclass(frozen=True)
class Forecast:
    """What ``perfcast.predict`` is asked."""

    model: str
    device: str
    options: dict[str, Any]

    def answer(self, folder: Path) -> dict[str, Any]:
        """As it is kept."""
        options = {"cost_model": "roofline"} | self.options
        forecast = predict_one_device(_request(self.model, self.device, **options))
        figures = {
            "step_seconds": forecast.step_seconds,
            "step_seconds_low": forecast.step_seconds_low,
            "step_seconds_high": forecast.step_seconds_high,
            "peak_memory_bytes": forecast.memory.peak_bytes,
            "peak_memory_by_last_use_bytes": forecast.memory.peak_by_last_use_bytes,
            "flops": forecast.flops,
            "recompute_flops": forecast.recompute_flops,
            "parameter_count": forecast.parameter_count,
            "node_count": len(forecast.node_seconds),
        }
        asked = ", ".join(f"{key}={value!r}" for key, value in sorted(options.items()))
        return {"command": f"perfcast.predict({self.model!r}, {self.device!r}, {asked})", "answer": figures}


CASES = {name: Forecast(*request) for name, request in REQUESTS.items()}
