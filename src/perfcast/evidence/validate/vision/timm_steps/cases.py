"""Measured steps of image models as timm's ``benchmark.py`` prints them, as cases.

What it runs (huggingface/pytorch-image-models: benchmark.py): inference is a forward under
``inference_mode``, the device waited for after every step; training is forward, cross entropy, backward and a
step of SGD with momentum. ``amp_fp16`` is autocast to fp16 with fp32 weights, in inference too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.catalogs.devices import find_device_name
from perfcast.core.tensor import MemoryFormat
from perfcast.evidence.dataset.table import read_frame
from perfcast.evidence.validate.runs.lines import spelled
from perfcast.prediction.request.one_device import Request
from perfcast.units import MILLI

STEM = "timm"
UNSUPPORTED = "unsupported operation"
#: What came of a step; everything else in a line states what was run.
_MEASURED = ("step_ms", "samples_per_second")
_NEEDED = (
    "model",
    "mode",
    "device",
    "dtype",
    "memory_format",
    "compiled",
    "batch_size",
    "image_size",
    "step_ms",
)
_FORMATS: Mapping[str, MemoryFormat] = {"nchw": "contiguous", "nhwc": "channels_last"}
_DTYPES = {"amp_fp16": "fp16", "amp_bf16": "bf16", "fp16": "fp16", "bf16": "bf16", "fp32": "fp32"}
#: Until April 2023 these ran kernels of In-Place Activated BatchNorm, up to three times as long with channels
#: last (huggingface/pytorch-image-models, pull request 1785; model card of tresnet_m.miil_in1k).
_IN_PLACE_NORM = re.compile(r"^tresnet|_iabn")
#: Prefixes of names that say where weights come from, not what the model is.
_ORIGINS = re.compile(r"^(tf|gluon|legacy|ig|swsl|ssl|jx)_")
_MODES = ("infer", "train")
#: PyTorch 2.0 brought fused attention to timm's models, and optimizers over lists of tensors by default.
_FUSED_SINCE = 2


@dataclass(frozen=True)
class TimmCase:
    """One measured step.

    Attributes:
        row: 0-based line.
        columns: The file's configuration columns, verbatim.
        skipped: Why it has no forecast.
    """

    row: int
    device: str
    catalog_device: str | None
    columns: Mapping[str, Any]
    measured_seconds: float | None
    skipped: str | None

    @property
    def family(self) -> str:
        """Models of one design."""
        return family_of(str(self.columns.get("model") or ""))

    @property
    def mode(self) -> str:
        """'infer' or 'train'."""
        return str(self.columns["mode"])

    @property
    def dtype(self) -> str:
        """Of the products, and 'amp_' under autocast."""
        return str(self.columns["dtype"])

    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile was asked for."""
        return str(self.columns["compiled"]).lower() == "true"

    @property
    def request(self) -> Request:
        """The eager step; cases that differ in device and compilation share it."""
        trains, is_new = self.mode == "train", _major_version(self.columns) >= _FUSED_SINCE
        return Request(
            model=f"timm:{self.columns['model']}",
            mode="train" if trains else "prefill",
            batch_size=_whole(self.columns["batch_size"]),
            image_size=_whole(self.columns["image_size"]),
            dtype=_DTYPES[self.dtype],
            autocast=not trains and self.dtype.startswith("amp_"),
            memory_format=_FORMATS[str(self.columns["memory_format"])],
            attention="sdpa" if is_new else "eager",
            optimizer="momentum",
            optimizer_implementation="foreach" if is_new or not trains else "loop",
        )


def family_of(model: str) -> str:
    """timm's name up to the first digit or underscore, without where the weights come from.

    >>> family_of("tf_efficientnet_b0.ns_jft_in1k"), family_of("resnet50")
    ('efficientnet', 'resnet')
    """
    return re.split(r"[_\d.]", _ORIGINS.sub("", model))[0]


def read_cases(path: Path) -> list[TimmCase]:
    """Every line of a table."""
    lines = read_frame(path).to_dicts()
    return [_read(number, line) for number, line in enumerate(lines)]


def _read(number: int, line: Mapping[str, Any]) -> TimmCase:
    device = spelled(str(line.get("device") or ""))
    catalog_device = find_device_name(device)
    measured = line.get("step_ms")
    is_measured = isinstance(measured, int | float) and measured > 0
    return TimmCase(
        row=number,
        device=device,
        catalog_device=catalog_device,
        columns={name: value for name, value in line.items() if name not in _MEASURED},
        measured_seconds=float(measured) * MILLI if is_measured and measured is not None else None,
        skipped=_fault(line, catalog_device, is_measured),
    )


def _fault(line: Mapping[str, Any], catalog_device: str | None, is_measured: bool) -> str | None:
    for name in _NEEDED:
        if line.get(name) is None or line[name] == "":
            return f"incomplete: {name}"
    if not is_measured or not all(_is_whole(line[name]) for name in ("batch_size", "image_size")):
        return "impossible value"
    known = (("mode", _MODES), ("dtype", _DTYPES), ("memory_format", _FORMATS))
    if any(str(line[name]) not in words for name, words in known):
        return UNSUPPORTED
    if _IN_PLACE_NORM.search(str(line["model"])) and _major_version(line) < _FUSED_SINCE:
        return UNSUPPORTED
    return None if catalog_device is not None else "unknown device"


def _major_version(columns: Mapping[str, Any]) -> int:
    """Of PyTorch; of today where it is not stated."""
    major = str(columns.get("torch_version") or "").split(".")[0]
    return int(major) if major.isdigit() else _FUSED_SINCE


def _whole(value: Any) -> int:
    return int(float(value))


def _is_whole(value: Any) -> bool:
    try:
        return float(value) > 0 and float(value) == int(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
