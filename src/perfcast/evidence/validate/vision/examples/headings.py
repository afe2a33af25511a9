"""What a column of a printed table states: something measured, and in which precision, or what was set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Measure = Literal["throughput", "latency", "latency bound"]

#: Words of results that are no time of a step: they are neither measured here nor configuration.
_RESULTS = re.compile(
    r"accuracy|speed-?\s?up|scaling|time to |training time|dice|loss|\bwer\b|\bnuv\b|\brtf\b|^r[12l] -|"
    r"mels generated|audio length|std"
)
_PERCENTILE = re.compile(r"\b(?:p?(?:50|90|95|99))\b|%")
_PRECISIONS = {"fp32": "fp32", "tf32": "tf32", "bf16": "bf16", "fp16": "fp16", "mixed precision": "fp16"}
_ANY_PRECISION = re.compile("|".join(_PRECISIONS))
#: Configuration by the beginning of its heading.
_KEYS = (
    (r"(?:number of )?gpus ?/ ?node", "gpus_per_node"),
    (r"(?:number of )?gpus?\b", "gpus"),
    (r"nodes\b", "nodes"),
    (r"accumulated batch", "accumulated_batch"),
    (r"(?:local )?batch size|^bs$", "batch_size"),
    (r"(?:grad(?:ient)? )?accumulation", "accumulation"),
    (r"sequence length|input length", "sequence_length"),
    (r"precision$", "precision"),
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A column as it is headed.

    Attributes:
        text: Verbatim.
        measure: What is measured; 'latency bound' is a percentile. None: configuration, or a result that is
            no time of a step.
        is_result: Whether it was measured at all, so that no forecast may read it.
        precisions: That it names, in its order.
        key: Of configuration that has one name here; its own words in lower case otherwise.
    """

    text: str
    measure: Measure | None
    is_result: bool
    precisions: tuple[str, ...]
    key: str


def read_heading(text: str) -> Heading:
    """Understand one heading.

    >>> read_heading("Throughput - mixed precision (tok/s)").precisions
    ('fp16',)
    >>> read_heading("Latency 90% (ms)").measure, read_heading("Batch size / GPU (TF32 and FP16)").key
    ('latency bound', 'batch_size')
    """
    words = " ".join(text.replace("\\", "").lower().split())
    measure = _measure(words)
    return Heading(
        text, measure, measure is not None or bool(_RESULTS.search(words)), _precisions(words), _key(words)
    )


def _measure(words: str) -> Measure | None:
    if "latency" in words and "percentiles" not in words:
        if "avg" in words or "average" in words:
            return "latency"
        return None if "std" in words else "latency bound"
    if _RESULTS.search(words):
        return None
    if "percentiles" in words:
        return "latency bound"
    is_used = re.match(r"number of (?:samples|mels) used", words)
    if "throughput" in words or is_used or words in ("tf32", "fp32"):
        return "throughput"
    return None


def _precisions(words: str) -> tuple[str, ...]:
    return tuple(_PRECISIONS[name] for name in _ANY_PRECISION.findall(words))


def _key(words: str) -> str:
    return next((key for pattern, key in _KEYS if re.match(pattern, words)), words)
