"""A model, a plan and a device → the memory of the worst stage, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfcast.catalog.models import load_model
from perfcast.core.forecast.footprint import Footprint, PlanMemory
from perfcast.core.hardware import Device
from perfcast.core.mode import MODES, Mode
from perfcast.core.plan import Plan
from perfcast.core.training import DTYPES, Training, TrainingFramework
from perfcast.core.transformer import Transformer
from perfcast.core.weights import count_parameters
from perfcast.core.words import known_word
from perfcast.errors import ModelError, PlanError
from perfcast.memory.footprint import estimate_footprint, estimate_serving_footprint
from perfcast.prediction.names import resolve_device
from perfcast.prediction.plan.remedies import find_remedies
from perfcast.prediction.plan.step_cost import estimate_step_cost


def predict_plan_memory(
    model: str,
    device: str | Device,
    plan: Plan,
    *,
    mode: Mode = "train",
    training: Training | None = None,
    dtype: str = "bf16",
    sequence_length: int | None = None,
    fit: bool = False,
) -> PlanMemory:
    """Memory of a transformer under a plan.

    Args:
        model: Catalog name, a Hugging Face config.json or its folder.
        mode: 'train', 'prefill' or 'decode' (the sequence is then what the cache holds).
        training: Precision, optimizer and framework; by default bf16, AdamW and the framework that
            ``default_framework`` names.
        dtype: Of weights and cache, for inference.
        fit: Whether to look for changes that make it fit, and what they cost.

    Raises:
        InputError: A model that no closed form describes, a plan that cannot cut it, an unknown name.
    """
    known_word("mode", mode, MODES)
    target = resolve_device(device) if isinstance(device, str) else device
    config, architecture, own_length = read_model(model)
    transformer = to_transformer(config, architecture, model)
    length = own_length if sequence_length is None else sequence_length
    if length is None:
        raise ModelError(f"{model} states no sequence length; give --sequence-length")
    if length < 1:
        raise PlanError(f"sequence length {length}: must be at least 1")
    footprint: Footprint
    if mode == "train":
        training = training or Training(
            dtype=known_word("dtype", dtype, DTYPES), framework=default_framework(plan)
        )
        footprint = estimate_footprint(transformer, plan, training, length, device=target)
        dtype = training.dtype
    else:
        training = None
        footprint = estimate_serving_footprint(
            transformer, plan, dtype, length, is_decode=mode == "decode", device=target
        )
    result = PlanMemory(
        model=model, device=target.name, device_title=target.title, mode=mode, plan=plan, training=training,
        dtype=dtype, sequence_length=length, parameter_count=count_parameters(transformer),
        capacity_bytes=target.memory_bytes, footprint=footprint,
    )  # fmt: skip
    if not fit:
        return result
    if training is None:
        raise PlanError("--fit weighs remedies of training; inference has none to weigh")
    cost = estimate_step_cost(transformer, plan, training, length, target)
    remedies = find_remedies(transformer, plan, training, length, target)
    return replace(result, step_seconds=cost.seconds, remedies=remedies)


def default_framework(plan: Plan) -> TrainingFramework:
    """Whose habits a plan suggests: FSDP's for ZeRO 3, Megatron's where models are cut, else by ZeRO."""
    if plan.zero_stage == 3:
        return "fsdp"
    cuts = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel * plan.expert_parallel
    if cuts > 1:
        return "megatron"
    return "deepspeed" if plan.zero_stage else "pytorch"


def read_model(model: str) -> tuple[Mapping[str, Any], str | None, int | None]:
    """Config, architecture and sequence length of a catalog name or a config file.

    Raises:
        InputError: Unknown, unreadable, or a program, which has no sizes to read.
    """
    if ".py:" in model:
        raise ModelError(f"{model}: a plan over several devices needs the sizes of a model, not a program")
    path = Path(model)
    if path.suffix == ".json" or path.is_dir():
        from perfcast.workload.models.huggingface import read_config

        config = read_config(path)
        return config, None, config.get("max_position_embeddings", config.get("n_positions"))
    entry = load_model(model)
    length = None if entry.sequence_length is None else int(entry.sequence_length.value)
    return entry.config, entry.architecture, length


def to_transformer(config: Mapping[str, Any], architecture: str | None, model: str) -> Transformer:
    """Sizes of a config.

    Raises:
        ModelError: No closed form describes the model.
    """
    from perfcast.workload.models.transformer import read_transformer

    try:
        return read_transformer(config, architecture)
    except ModelError as error:
        raise ModelError(f"{model}: {error}") from None
