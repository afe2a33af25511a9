"""Small tables of measured memory, and a predictor that answers without knowing anything of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from perfcast.core.forecast.footprint import Footprint, PeakCandidate, StageFootprint, Term
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training

MIB, GIB = 2**20, 2**30

PLAYBOOK: dict[str, Any] = {
    "id": "usp-1b-0001", "source": "playbook", "source_locator": "html", "model": "Llama-style 1B",
    "layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 32, "ffn_hidden": 8192, "vocab": 131072,
    "seq_len": 4096, "gpu": "H100-SXM-80GB", "device": "h100-sxm", "num_gpus": 8, "tp": 1, "pp": 1,
    "vpp": None, "dp": 8, "cp": 1, "ep": None, "zero_or_fsdp": "ZeRO-0", "zero_stage": 0, "micro_batch": "2",
    "global_batch": 256, "precision": "bf16", "dtype": "bf16 (fp32 grad accumulation)",
    "step_time_s": 3.2, "tokens_per_s_per_gpu": 40149.9, "mfu": 0.39, "peak_mem_gb": 50.0,
    "notes": "grad-acc 16; PP engine not stated",
}  # fmt: skip
BLOOM = PLAYBOOK | {
    "id": "bloom-prequel-0086", "model": "GPT-181B", "layers": 72, "hidden": 14336, "heads": 64,
    "kv_heads": None, "ffn_hidden": None, "vocab": 250000, "seq_len": 2048, "gpu": "A100-SXM4-80GB",
    "device": "a100-sxm-80gb", "num_gpus": 384, "tp": 4, "pp": 12, "dp": 8, "zero_or_fsdp": "ZeRO-1",
    "zero_stage": 1, "micro_batch": "4", "global_batch": 2048, "peak_mem_gb": 60.0, "notes": "date 02-25",
}  # fmt: skip
SIMUMAX: dict[str, Any] = {
    "source_repo": "MooreThreads/SimuMax", "source_path": "summary.json", "model": "llama3-70b", "layers": 12,
    "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn_hidden": 28672, "vocab": 128256, "seq_len": 4096,
    "gpu": "B200-SXM 180GB", "num_gpus": 8, "dp": 4, "tp": 1, "pp": 2, "vpp": 1, "cp": 1, "ep": None,
    "zero_or_fsdp": "ZeRO-1", "micro_batch": 1, "global_batch": 16, "recompute": "none", "dtype": "bf16",
    "metric_name": "step_time_ms", "metric_value": 843.0, "peak_mem_gb": 66.5,
    "notes": "case=llama3_70b_l12_tp1_pp2_dp4_mbc4_cef; peak_mem is max_allocated; real_reserved_gib=70.75",
}  # fmt: skip
GOLDEN: dict[str, Any] = {
    "source_path": "tests/gpt/a/golden_values_dev_dgx_h100.json", "test_case": "gpt3_mcore_te_tp2_pp2",
    "family": "gpt", "env": "dev", "gpu": "H100-SXM-80GB", "num_gpus": 8, "layers": 12, "hidden": 512,
    "ffn_hidden": 2048, "heads": 8, "kv_heads": 8, "kv_channels": None, "seq_len": 1024, "micro_batch": 4,
    "global_batch": 32, "tp": 2, "pp": 2, "vpp": None, "cp": 1, "ep": 1, "etp": None, "dp": 2,
    "sequence_parallel": "False", "num_experts": None, "moe_topk": None, "moe_ffn_hidden": None,
    "mla": "False", "swiglu": "False", "untie_embeddings": "False", "sharding": "ddp", "recompute": "none",
    "dtype": "bf16",
    "transformer_impl": "transformer_engine", "attention_backend": "unfused",
    "mem_allocated_bytes": 500 * MIB, "mem_max_allocated_bytes": 2000 * MIB,
}  # fmt: skip
FAILURE: dict[str, Any] = {
    "model": "1B", "layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 32, "ffn_hidden": 8192,
    "vocab": 131072, "seq_len": 4096, "gpu": "H100-80GB", "num_gpus": 8, "tp": 1, "pp": 1, "dp": 8, "zero": 0,
    "micro_batch": 4, "grad_acc": 8, "global_batch": 256, "label": "crashed_or_oom", "source": "playbook",
}  # fmt: skip
PART: dict[str, Any] = {
    "source": "all.json", "strategy": "2_2_2_vtp_sp", "pp": 2, "tp": 2, "dp": 2, "layers": 2,
    "global_batch": 8, "seq_len": 2048, "rank": 7, "kind": "model_states_MB", "value_MB": 900.5,
}  # fmt: skip


def write_tables(place: Path, **tables: list[dict[str, Any]]) -> Path:
    """A folder with a CSV file for each table."""
    place.mkdir(parents=True, exist_ok=True)
    for name, lines in tables.items():
        pl.DataFrame(lines, infer_schema_length=None).write_csv(place / f"{name}.csv")
    return place


def memory_folder(place: Path) -> Path:
    """Every table, with complete lines, lines without something, and two that contradict each other."""
    return write_tables(
        place,
        training=[
            PLAYBOOK,
            PLAYBOOK | {"id": "usp-1b-0002", "micro_batch": "4", "notes": "grad-acc 8", "peak_mem_gb": 70.0},
            BLOOM,
            BLOOM | {"layers": None},
            PLAYBOOK | {"id": "mlperf-1", "peak_mem_gb": None},
        ],
        out_of_memory=[FAILURE, FAILURE | {"micro_batch": 64, "grad_acc": 1}],
        peak_memory=[
            SIMUMAX,
            SIMUMAX | {"source_repo": "Lightning-AI/litgpt", "layers": None, "gpu": "A10G 24GB"},
            SIMUMAX | {"gpu": "abacus 3"},
        ],
        megatron_golden_values=[GOLDEN, GOLDEN | {"family": "t5"}, GOLDEN | {"num_gpus": None}],
        galvatron_llama2_7b_bf16=[PART],
    )


def predict(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, *, device: Device | None = None
) -> Footprint:
    """Two stages of round numbers that grow with the micro-batch; the second needs twice the first."""
    batch = plan.micro_batch_size
    stages = tuple(_stage(number, 10 * GIB * (number + 1), 2 * GIB * batch) for number in range(2))
    peak = 20 * GIB + 2 * GIB * batch
    return Footprint(
        stages,
        peak_bytes_low=peak // 2,
        peak_bytes_high=peak * 2,
        reserved_bytes=peak + 4 * GIB,
        reserved_bytes_low=peak,
        reserved_bytes_high=peak + 8 * GIB,
        context_bytes=GIB,
        assumptions=(f"{training.framework} on {device.name if device else 'nothing'}",),
    )


def _stage(number: int, states: int, activations: int) -> StageFootprint:
    terms = (
        Term("weights", Category.PARAMETER, states, "p", "made up"),
        Term("layer activations", Category.ACTIVATION, activations, "a", "made up"),
    )
    return StageFootprint(number, (PeakCandidate("optimizer", terms[:1]), PeakCandidate("backward", terms)))
