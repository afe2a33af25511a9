"""Lines of the measured table, made up, as the suite of serving reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

#: A dense model on one server.
DENSE: dict[str, Any] = {
    "id": "a",
    "silicon_data_source": "source_file=2026-04-06.csv; measured=2025-10-29T00:00:00",
    "backend": "vllm",
    "backend_version": None,
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "precision": "fp8",
    "mode": "agg",
    "isl": 128,
    "osl": 64,
    "gemm_quant_mode": "fp8",
    "batch_size": 4.0,
    "tp_size": 2.0,
    "pp_size": 1.0,
    "attention_dp_size": 1.0,
    "moe_tp_size": 2.0,
    "moe_ep_size": 1.0,
    "concurrency": 4.0,
    "silicon_ttft_ms": 30.0,
    "silicon_tpot_ms": 6.0,
}
#: Two pools whose workers the table does not count.
POOLS: dict[str, Any] = {
    **DENSE,
    "id": "b",
    "mode": "disagg",
    "backend": "trtllm",
    "backend_version": "0.8.1.post2",
    "model_path": "deepseek-ai/DeepSeek-R1",
    "system": "b200_sxm",
    "isl": 1024,
    "osl": 1024,
    "silicon_data_source": "db-dump/2026-04-27; measured=2026-03-23T00:00:00.000Z",
    "tp_size": None,
    "pp_size": None,
    "attention_dp_size": None,
    "moe_tp_size": None,
    "moe_ep_size": None,
    "prefill_tp_size": 8.0,
    "prefill_attention_dp_size": 1.0,
    "prefill_moe_tp_size": 1.0,
    "prefill_moe_ep_size": 8.0,
    "decode_tp_size": 8.0,
    "decode_attention_dp_size": 1.0,
    "decode_moe_tp_size": 1.0,
    "decode_moe_ep_size": 8.0,
    "concurrency": 4096.0,
}


def write_points(folder: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """The table in a folder."""
    columns = dict.fromkeys(name for line in lines for name in line)
    frame = pl.DataFrame([{name: line.get(name) for name in columns} for line in lines])
    frame.write_csv(folder / "inference_ttft_tpot_aiconfigurator.csv")
