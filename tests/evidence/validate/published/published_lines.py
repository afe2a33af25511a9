"""Lines of published training runs, one for each way of being read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_tables import PLAYBOOK as USP
from memory_tables import write_tables

VTRAIN: dict[str, Any] = {
    "id": "vtrain-single-0657", "source": "vTrain MICRO24", "source_locator": "csv", "model": "GPT",
    "layers": 12, "hidden": 1024, "heads": 16, "kv_heads": 16, "ffn_hidden": None, "vocab": None,
    "seq_len": 1024, "gpu": "A100-SXM4", "device": "a100-sxm-80gb", "num_gpus": 8, "gpus_per_node": 8,
    "tp": 4, "pp": 1, "vpp": None, "dp": 2, "cp": 1, "ep": None, "zero_or_fsdp": None, "micro_batch": 1,
    "global_batch": 4, "recompute": "full", "sequence_parallel": "no", "dtype": "fp16",
    "attention_impl": None, "interconnect": "single node NVLink", "step_time_s": 0.09058,
    "tflops_per_gpu": None, "tokens_per_s_per_gpu": 5652.44, "mfu": None, "hfu": None, "peak_mem_gb": None,
    "notes": "single-node sweep", "derived_fields": "tokens_per_s_per_gpu", "precision": "fp16",
    "zero_stage": None, "recompute_mode": "full", "inter_node_gbit_per_s_per_node": None,
}  # fmt: skip
NEMO = VTRAIN | {
    "id": "nemo-h100-0010", "source": "NVIDIA NeMo", "model": "LLAMA3-70B", "layers": 80, "hidden": 8192,
    "heads": 64, "kv_heads": 8, "ffn_hidden": 28672, "vocab": 128256, "seq_len": 8192,
    "gpu": "H100-SXM5-80GB (DGX-H100)", "device": "h100-sxm", "num_gpus": 64, "tp": 4, "pp": 4, "dp": 2,
    "cp": 2, "global_batch": 128, "recompute": None, "sequence_parallel": None, "dtype": "fp8 (TE)",
    "attention_impl": "TE/cuDNN fused", "interconnect": "DGX H100, NVLink4; NDR IB (multi-node)",
    "step_time_s": 10.688, "tokens_per_s_per_gpu": 1533.0, "precision": "fp8", "recompute_mode": "unknown",
}  # fmt: skip
FSDP = VTRAIN | {
    "id": "fms-fsdp-0001", "source": "foundation-model-stack", "model": "Llama2-7b", "layers": 32,
    "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn_hidden": 11008, "vocab": 32000, "seq_len": 4096,
    "gpu": "A100-80GB", "num_gpus": 128, "tp": 1, "dp": 128, "zero_or_fsdp": "HSDP", "micro_batch": 2,
    "global_batch": 256, "recompute": "none", "dtype": "bf16", "attention_impl": "SDPA flash v2",
    "interconnect": "400 Gbps (README)", "step_time_s": 1.8, "tokens_per_s_per_gpu": 4550.0,
    "precision": "bf16", "zero_stage": 3, "recompute_mode": "none",
}  # fmt: skip
LORA = NEMO | {
    "id": "mlperf-llama2_70b_lora-0012", "source": "MLPerf", "model": "Llama-2-70B LoRA", "vocab": 32000,
    "pp": 1, "dp": 8, "global_batch": 8, "sequence_parallel": "yes", "inter_node_gbit_per_s_per_node": 800,
    "interconnect": "NVLINK Gen4 | Storage: 2x ConnectX-7 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s",
    "step_time_s": 0.68,
}  # fmt: skip
MIXTURE = NEMO | {
    "id": "gcp-recipe-0003", "source": "gpu-recipes", "model": "Mixtral-8x7B", "layers": 32, "hidden": 4096,
    "heads": 32, "ffn_hidden": 14336, "vocab": 32000, "seq_len": 4096, "num_gpus": 16, "tp": 1, "pp": 1,
    "dp": 16, "cp": 1, "ep": 8, "micro_batch": 2, "global_batch": 64, "precision": "bf16",
    "recompute_mode": "none", "step_time_s": 2.7,
}  # fmt: skip
PLAYBOOK = USP | {
    "gpus_per_node": 8, "recompute": "not stated", "recompute_mode": "none", "sequence_parallel": "no",
    "attention_impl": "FlashAttention-2 (nanotron llama)", "interconnect": "NVLink4; AWS EFA inter-node",
    "inter_node_gbit_per_s_per_node": 3200, "tflops_per_gpu": None, "hfu": None, "derived_fields": "step",
}  # fmt: skip


def published_folder(place: Path, *lines: dict[str, Any]) -> Path:
    """A folder with a table of training runs."""
    return write_tables(place, training=list(lines))
