"""Made-up tables in the format of ``nvidia_examples.jsonl``: one of every shape that is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = "X For PyTorch / Performance / Results"
_PREFIX = "PyTorch/"


def line(source: str, section: str, **columns: str) -> dict[str, str]:
    return {"source_file": f"{_PREFIX}{source}/README.md", "section": f"{ROOT} / {section}", **columns}


def table(source: str, section: str, headings: Sequence[str], *rows: Sequence[str]) -> list[dict[str, str]]:
    return [line(source, section, **dict(zip(headings, row, strict=True))) for row in rows]


NCF = "Recommendation/NCF"
CONVNET = "Classification/ConvNets/resnext101-32x4d"
V100 = "NVIDIA DGX-1 (8x V100 16GB)"
LATENCIES = ("Batch size", "Throughput Avg", "Latency Avg", "Latency 90%", "Latency 95%")

TRAINED = table(
    NCF,
    f"Training performance results / Training performance: {V100}",
    (
        "GPUs",
        "Batch size / GPU",
        "Throughput - FP32 (samples/s)",
        "Throughput - mixed precision (samples/s)",
        "Throughput speedup (FP32 to mixed precision)",
        "Strong scaling - FP32",
    ),
    ("1", "65536", "1.0M", "2.0M", "2.0", "1"),
    ("8", "8192", "4.0M", "8.0M", "2.0", "4"),
)
#: Two tables of one section: fp32, then fp16.
INFERRED = table(
    NCF,
    "Inference performance results / Inference performance: NVIDIA DGX-1 (1x V100 16GB)",
    LATENCIES,
    ("1024", "1e+06", "0.001024", "0.0011", "0.0012"),
    ("4096", "2e+06", "0.002048", "0.0021", "0.0022"),
    ("1024", "2e+06", "0.000512", "0.0006", "0.0007"),
    ("4096", "4e+06", "0.001900", "0.0011", "0.0012"),
)
ACCURACY = table(
    NCF,
    f"Training accuracy results / Training accuracy: {V100}",
    ("GPUs", "Batch size / GPU", "Accuracy - FP32", "Time to train - FP32"),
    ("1", "65536", "0.95", "300"),
)
#: No batch in the table: the scripts say it.
CONVNETS = table(
    CONVNET,
    f"Training performance results / Training performance: {V100}",
    ("GPUs", "Throughput - FP32", "Throughput - mixed precision", "FP32 Training Time (90E)"),
    ("1", "147 img/s", "587 img/s", "~228 hours"),
)
IMAGES = table(
    CONVNET,
    "Inference performance results / Inference performance: NVIDIA T4 / Mixed Precision Inference Latency",
    ("Batch Size", "Throughput Avg", "Latency Avg", "Latency 95%", "Latency 99%"),
    ("2", "87 img/s", "23.14 ms", "26.55 ms", "30.97 ms"),
)
JASPER = table(
    "SpeechRecognition/Jasper",
    "Inference performance results / Inference performance: NVIDIA T4",
    ("", "FP16 Latency (ms) Percentiles", "FP32 Latency (ms) Percentiles", "FP16/FP32 speed up"),
    ("Avg", "90%", "90%", "Avg"),
    *(("50.00", "25.0", "51.0", "2.00"),) * 15,
)
BERT = table(
    "LanguageModeling/BERT",
    "Training performance results / Training performance: NVIDIA DGX-1 (8x V100 32G) / Pre-training With 32G",
    (
        "GPUs",
        "Batch size / GPU (FP32 and FP16)",
        "Accumulation steps (FP32 and FP16)",
        "Sequence length",
        "Throughput - FP32(sequences/sec)",
        "Throughput - mixed precision(sequences/sec)",
    ),
    ("8", "4096 and 4096", "128 and 64", "128", "387", "1746"),
)
WAVEGLOW = table(
    "SpeechSynthesis/Tacotron2",
    "Training performance results / Training performance: NVIDIA DGX A100 (8x A100 40GB)",
    (
        "Number of GPUs",
        "Batch size per GPU",
        "Number of samples used with mixed precision",
        "Number of samples used with TF32",
        "Speed-up with mixed precision",
    ),
    ("1", "10@FP16, 4@TF32", "149,479", "67,581", "2.21"),
)
UNKNOWN = table("Somewhere/Else", f"Training performance: {V100}", ("GPUs", "Throughput - FP32"), ("1", "5"))
NO_PRECISION = table(
    NCF, f"Training performance: {V100}", ("GPUs", "Batch size / GPU", "Throughput"), ("1", "64", "1000")
)

EVERY = [
    *TRAINED,
    *INFERRED,
    *ACCURACY,
    *CONVNETS,
    *IMAGES,
    *JASPER,
    *BERT,
    *WAVEGLOW,
    *UNKNOWN,
    *NO_PRECISION,
]


def write_lines(path: Path, lines: Sequence[Mapping[str, str]]) -> Path:
    path.write_text("".join(json.dumps(dict(entry)) + "\n" for entry in lines), encoding="utf-8")
    return path
