"""What is taken where nothing is asked for: precision and length of a sequence, one rule for every verb.

A training is in mixed precision: bf16 where the device has it, fp16 where it has only that (V100, T4), else
fp32. Inference takes the precision of the model's own configuration: its quantisation, else its ``dtype``; a
configuration that states fp32 or nothing is run in half precision, as vLLM's ``--dtype auto`` does (vLLM:
config/model.py, ``_get_and_verify_dtype``). The local processor, which has neither, takes fp32, and so do
recommendation models, whose published trainings do, and programs of one's own, which say themselves what they
cast. A sequence is as long as the model was trained with
(``prediction.model``), but no longer than ``MOST_TOKENS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfcast.core.dtype import AUTO, DType
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.errors import ModelError
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.request.one_device import Request
from perfcast.prediction.request.recommender import DenseDType
from perfcast.workload.models.quantisation import quantised_format

#: What recommendation models are trained in, their tables and dense part alike.
RECOMMENDER_DTYPE: DenseDType = "fp32"
_HALF = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "half": "fp16", "fp16": "fp16"}


@dataclass(frozen=True, slots=True)
class Defaults:
    """Precision and sequence of a step.

    Attributes:
        sequence_length: None of a model without sequences, or of a program that has its own.
        notes: What was chosen and why, in words; nothing of what was asked for.
    """

    dtype: str
    sequence_length: int | None
    notes: tuple[str, ...]


def choose_defaults(
    model: NamedModel,
    mode: Mode,
    device: Device,
    *,
    dtype: str = AUTO,
    sequence_length: int | None = None,
) -> Defaults:
    """Precision and sequence as they are asked for, or as they usually are.

    Raises:
        ModelError: A model whose configuration is quantised in a way that is not known.
    """
    notes = []
    if dtype == AUTO:
        dtype, why = usual_dtype(model, mode, device)
        notes.append(f"{dtype}: {why}")
    if sequence_length is None and model.usual_sequence_length is not None:
        sequence_length = model.usual_sequence_length
        notes.append(_about_length(sequence_length, model.most_tokens))
    return Defaults(dtype, sequence_length, tuple(notes))


def complete_request(request: Request, device: Device) -> tuple[Request, tuple[str, ...]]:
    """The request with nothing left open, and what was chosen, in words.

    Raises:
        ModelError: As ``choose_defaults``.
    """
    model = read_model(request.model)
    found = choose_defaults(
        model, request.mode, device, dtype=request.dtype, sequence_length=request.sequence_length
    )
    return replace(request, dtype=found.dtype, sequence_length=found.sequence_length), found.notes


def usual_dtype(model: NamedModel, mode: Mode, device: Device) -> tuple[str, str]:
    """The precision where none is asked for, and why.

    Raises:
        ModelError: A model whose configuration is quantised in a way that is not known.
    """
    half = _half_of(device)
    if model.is_program:
        return "fp32", "a program of one's own is cast to nothing else than it says itself"
    if model.is_recommender:
        return RECOMMENDER_DTYPE, "as recommendation models are trained"
    if device.is_cpu or half is None:
        return "fp32", f"{device.title or device.name} has no half precision that is priced"
    if mode == "train":
        return half, _about_training(model.config, half)
    quantised = _quantised(model)
    if quantised is not None:
        return quantised, "as the model's config is quantised"
    stated = _stated(model.config)
    own = _HALF.get(stated)
    if own is None:
        states = f"states {stated}" if stated else "states none"
        return half, f"the model's config {states}, which is served in half precision"
    if own == "bf16" and half != "bf16":
        return half, f"the model's config says bf16, which {device.name} does not have"
    return own, "as the model's config says"


def _half_of(device: Device) -> str | None:
    """The 16-bit format of a device's products: bf16 before fp16."""
    tables = (device.matrix_flops_per_second, device.vector_flops_per_second)
    for dtype in (DType.BF16, DType.FP16):
        if any(dtype in table for table in tables):
            return dtype.label
    return None


def _about_training(config: Mapping[str, Any], half: str) -> str:
    said = "mixed precision" if half == "bf16" else "mixed precision; the device has no bf16"
    return f"{said}; the checkpoint is quantised, a training is not" if _quantisation(config) else said


def _quantised(model: NamedModel) -> str | None:
    table = _quantisation(model.config)
    if not table:
        return None
    try:
        return quantised_format(table)
    except ModelError as error:
        raise ModelError(f"{model.name}: {error}; give --dtype") from None


def _quantisation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("quantization_config") or _text_config(config).get("quantization_config") or {}
    return found if isinstance(found, Mapping) else {}


def _stated(config: Mapping[str, Any]) -> str:
    """``dtype`` (``torch_dtype`` before transformers 5) of a configuration; '' where it states none."""
    for table in (config, _text_config(config)):
        found = table.get("dtype") or table.get("torch_dtype")
        if isinstance(found, str):
            return found.removeprefix("torch.")
    return ""


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """That of the language model, of one that also sees."""
    found = config.get("text_config")
    return found if isinstance(found, Mapping) else {}


def _about_length(length: int, most: int | None) -> str:
    return f"{length:,} tokens of {most:,}" if most is not None and most > length else f"{length:,} tokens"
