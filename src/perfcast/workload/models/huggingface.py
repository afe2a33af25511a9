"""Programs from Hugging Face configs: the architecture's own module and plausible inputs, no weights.

Only architectures that the installed transformers knows are built; code that comes with a model is
never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcast.errors import ModelError, UnknownNameError
from perfcast.torch_internals.eager import DataDependentOutputException
from perfcast.workload.models.balanced_experts import balance_experts
from perfcast.workload.models.inputs import program_with_inputs
from perfcast.workload.models.transformers_context import quiet_transformers
from perfcast.workload.models.tuned.tune import tune_module
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program


def build_program(config: Mapping[str, Any], architecture: str | None, shape: StepShape) -> Program:
    """The module of a config in training or inference form, with inputs.

    Runs under fake tensors as well as on real ones.

    Raises:
        ModelError: Unknown architecture, or a config that the architecture refuses.
    """
    with quiet_transformers():
        module = _build_module(dict(config), architecture, shape)
        tune_module(module, shape.tuning, shape.product_dtype)
        notes = balance_experts(module)
        if shape.attention == "sdpa" and getattr(module.config, "_attn_implementation", "sdpa") == "eager":
            notes = (*notes, f"{type(module).__name__} has no fused attention: eager is run")
        return program_with_inputs(module, shape, notes)


def _build_module(config: dict[str, Any], architecture: str | None, shape: StepShape) -> Any:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    model_type = config.pop("model_type")
    if shape.image_size is not None:
        config["image_size"] = shape.image_size
    if model_type not in CONFIG_MAPPING_NAMES:
        raise UnknownNameError(
            "model_type", str(model_type), CONFIG_MAPPING_NAMES, "Code shipped with a model is not run."
        )
    for key in (
        "auto_map",
        "quantization_config",
        "torch_dtype",
        "dtype",
        "transformers_version",
        "_name_or_path",
    ):
        config.pop(key, None)
    names = config.get("architectures")
    architecture = architecture or (names[0] if isinstance(names, list) and names else None)
    try:
        parsed = transformers.AutoConfig.for_model(model_type, **config)
        parsed.use_cache = False
        builder = _builder(architecture, parsed)
        extra: dict[str, Any] = {}
        if getattr(builder, "_can_set_experts_implementation", bool)() and _has_experts(parsed):
            extra["experts_implementation"] = "grouped_mm"
        has_fused = getattr(builder, "_supports_sdpa", False)
        attention = shape.attention if has_fused else "eager"
        return builder._from_config(parsed, dtype=shape.weight_dtype, attn_implementation=attention, **extra)
    except (UnknownNameError, ModelError, DataDependentOutputException):
        raise
    except Exception as error:
        raise ModelError(
            f"model_type '{model_type}' refuses this config: {type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        ) from error


def _builder(architecture: str | None, config: Any) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    if architecture is not None:
        builder = getattr(transformers, architecture, None)
        if builder is None or not hasattr(builder, "_from_config"):
            raise UnknownNameError("architecture", architecture, _known_architectures())
        return builder
    for auto in (
        "AutoModelForCausalLM",
        "AutoModelForSeq2SeqLM",
        "AutoModelForMaskedLM",
        "AutoModelForImageClassification",
    ):
        mapping = getattr(modeling_auto, auto)._model_mapping
        if type(config) in mapping:
            return _first(mapping[type(config)])
    return _first(modeling_auto.AutoModel._model_mapping[type(config)])


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple | list) else value


def _has_experts(config: Any) -> bool:
    return hasattr(config, "num_experts_per_tok") or hasattr(config, "num_local_experts")


def _known_architectures() -> list[str]:
    from transformers.models.auto import modeling_auto as auto

    tables = (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    )
    return sorted({str(name) for table in tables for name in table.values()})
