"""Programs from Hugging Face configs: the architecture's own module and plausible inputs, no weights.

Only architectures that the installed transformers knows are built; code that comes with a model is
never run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from perfcast.errors import ModelError, UnknownNameError
from perfcast.workload.balanced_experts import balance_experts
from perfcast.workload.step import Program

_MAX_SIZE = 10**9
_MAX_LAYERS = 10**4
_SIZE_WORDS = (
    "size layers layer heads head dim embd positions d_model d_ff d_kv inner experts hidden num_channels"
).split()
_DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}


@dataclass(frozen=True)
class StepShape:
    """What is asked of a model.

    Attributes:
        mode: 'train', 'prefill' or 'decode'.
        batch_size: Sequences, images or samples.
        sequence_length: Tokens of a sequence; in decode, of the context including the new token.
        dtype: Precision by its label; training in bf16 or fp16 keeps fp32 weights (autocast).
        attention: 'sdpa' (fused) or 'eager'.
        recompute: 'none' or 'full' (every layer is checkpointed).
    """

    mode: str = "train"
    batch_size: int = 1
    sequence_length: int | None = None
    dtype: str = "fp32"
    attention: str = "sdpa"
    recompute: str = "none"

    @property
    def weight_dtype(self) -> torch.dtype:
        """Element type of the parameters."""
        if self.mode == "train" and self.dtype != "fp64":
            return torch.float32
        return _DTYPES[self.dtype]

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """Lower precision of mixed-precision training, or None."""
        return _DTYPES[self.dtype] if self.mode == "train" and self.dtype in ("bf16", "fp16") else None


def read_config(path: Path) -> dict[str, Any]:
    """A config.json, or the one in a folder.

    Raises:
        ModelError: Missing, not JSON, not an object, or with impossible sizes.
    """
    if path.is_dir():
        path = path / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON ({error}); is the file cut off?") from None
    if not isinstance(config, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(config).__name__}")
    if "model_type" not in config:
        raise ModelError(f"{path}: no 'model_type'; this is not a Hugging Face model config")
    _check_sizes(config, str(path))
    return config


def _check_sizes(config: Mapping[str, Any], where: str) -> None:
    for key, value in config.items():
        if isinstance(value, Mapping):
            _check_sizes(value, f"{where}: {key}")
        is_size = any(
            key == word or key.endswith(f"_{word}") or key.startswith(f"{word}_") for word in _SIZE_WORDS
        )
        if is_size and isinstance(value, int | float) and not isinstance(value, bool):
            if value < 0:
                raise ModelError(f"{where}: {key} is {value}; a size cannot be negative")
            limit = _MAX_LAYERS if key.endswith(("layer", "layers")) else _MAX_SIZE
            if value > limit:
                raise ModelError(f"{where}: {key} is {value}; no model is that large (limit {limit})")
            if value == 0 and key in (
                "hidden_size",
                "n_embd",
                "d_model",
                "num_attention_heads",
                "n_head",
                "vocab_size",
            ):
                raise ModelError(f"{where}: {key} is 0")


def build_program(config: Mapping[str, Any], architecture: str | None, shape: StepShape) -> Program:
    """The module of a config in training or inference form, with inputs.

    Runs under fake tensors as well as on real ones.

    Raises:
        ModelError: Unknown architecture, or a config that the architecture refuses.
    """
    with _quiet_transformers():
        module = _build_module(dict(config), architecture, shape)
        notes = balance_experts(module)
        if shape.attention == "sdpa" and getattr(module.config, "_attn_implementation", "sdpa") == "eager":
            notes = (*notes, f"{type(module).__name__} has no fused attention: eager is run")
        return _with_inputs(module, shape, notes)


def _build_module(config: dict[str, Any], architecture: str | None, shape: StepShape) -> Any:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    model_type = config.pop("model_type")
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
        if hasattr(parsed, "num_experts_per_tok") or hasattr(parsed, "num_local_experts"):
            extra["experts_implementation"] = "grouped_mm"
        has_fused = getattr(builder, "_supports_sdpa", False)
        attention = shape.attention if has_fused else "eager"
        return builder._from_config(parsed, dtype=shape.weight_dtype, attn_implementation=attention, **extra)
    except (UnknownNameError, ModelError):
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
            return mapping[type(config)]
    return modeling_auto.AutoModel._model_mapping[type(config)]


def _known_architectures() -> list[str]:
    from transformers.models.auto import modeling_auto as auto

    tables = (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
              auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
              auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES)  # fmt: skip
    return sorted({str(name) for table in tables for name in table.values()})


def _with_inputs(module: Any, shape: StepShape, notes: tuple[str, ...]) -> Program:
    training = shape.mode == "train"
    if training and shape.recompute == "full":
        if not getattr(module, "supports_gradient_checkpointing", False):
            raise ModelError(f"{type(module).__name__} does not support recompute=full")
        _checkpoint_layers(module)
    if module.main_input_name == "pixel_values":
        return _image_program(module, shape, notes)
    length = shape.sequence_length or _default_length(module.config)
    _check_length(module.config, length)
    if getattr(module.config, "is_encoder_decoder", False):
        return _encoder_decoder_program(module, shape, length, notes)
    return _decoder_program(module, shape, length, notes)


def _checkpoint_layers(module: Any) -> None:
    """Every layer runs again in the backward; transformers renamed the method during version 5."""
    how = {"use_reentrant": False}
    if hasattr(module, "activation_checkpointing_enable"):
        module.activation_checkpointing_enable(activation_checkpointing_kwargs=how)
    else:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)


def _checkpoint_every_layer(module: Any) -> None:
    if hasattr(module, "activation_checkpointing_enable"):
        module.activation_checkpointing_enable({"use_reentrant": False})
    else:  # the name before transformers 5.20 or so
        module.gradient_checkpointing_enable({"use_reentrant": False})


def _decoder_program(module: Any, shape: StepShape, length: int, notes: tuple[str, ...]) -> Program:
    ids = torch.zeros(shape.batch_size, length, dtype=torch.int64)
    if shape.mode == "train":
        kwargs: dict[str, Any] = {"input_ids": ids}
        if _is_language_model(module):
            kwargs["labels"] = ids.clone()
        return _program(module, kwargs, shape, length, notes)
    generates = "ForCausalLM" in type(module).__name__ or (
        "LMHead" in type(module).__name__ and not _is_encoder(module)
    )
    if shape.mode == "decode":
        if not generates:
            raise ModelError(f"{type(module).__name__} does not generate tokens; it has no decode step")
        return _decode_program(module, shape, length, notes)
    kwargs = {"input_ids": ids}
    if generates:
        kwargs["use_cache"] = True
    return _program(module, kwargs, shape, length, notes)


def _decode_program(module: Any, shape: StepShape, length: int, notes: tuple[str, ...]) -> Program:
    """One new token against a cache of ``length - 1``, preallocated for ``length``."""
    from transformers import StaticCache

    config = module.config.get_text_config(decoder=True)
    cache = StaticCache(config=config, max_cache_len=length)
    dtype = module.dtype
    for layer in cache.layers:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        key_size, value_size = size, size
        if getattr(config, "kv_lora_rank", None):
            heads, key_size, value_size = 1, config.kv_lora_rank, config.qk_rope_head_dim  # latents
        if hasattr(layer, "lazy_initialization"):
            layer.lazy_initialization(
                torch.zeros(shape.batch_size, heads, 0, key_size, dtype=dtype),
                torch.zeros(shape.batch_size, heads, 0, value_size, dtype=dtype),
            )
    kwargs = {
        "input_ids": torch.zeros(shape.batch_size, 1, dtype=torch.int64),
        "past_key_values": cache,
        "use_cache": True,
        "position_ids": torch.zeros(1, 1, dtype=torch.int64),
    }
    note = "decode writes into a preallocated cache and attends to the whole context"
    return _program(module, kwargs, shape, length, (*notes, note))


def _encoder_decoder_program(module: Any, shape: StepShape, length: int, notes: tuple[str, ...]) -> Program:
    ids = torch.zeros(shape.batch_size, length, dtype=torch.int64)
    if shape.mode == "train":
        return _program(module, {"input_ids": ids, "labels": ids.clone()}, shape, length, notes)
    if shape.mode == "decode":
        return _encoder_decoder_decode(module, shape, length, ids, notes)
    kwargs: dict[str, Any] = {"input_ids": ids, "decoder_input_ids": ids.clone()}
    if module.config.model_type != "switch_transformers":  # its encoder refuses to hear of a cache
        kwargs["use_cache"] = True
    note = "prefill of an encoder-decoder: as many tokens in the decoder as in the encoder"
    return _program(module, kwargs, shape, length, (*notes, note))


def _encoder_decoder_decode(
    module: Any, shape: StepShape, length: int, ids: torch.Tensor, notes: tuple[str, ...]
) -> Program:
    """One new decoder token: encoder output and both caches are there."""
    from transformers import DynamicCache, EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput, MoEModelOutput

    config = module.config
    heads = config.num_attention_heads if hasattr(config, "num_attention_heads") else config.num_heads
    size = getattr(config, "d_kv", None) or config.hidden_size // heads
    layers = getattr(config, "num_decoder_layers", None) or config.num_hidden_layers
    own, cross = DynamicCache(), DynamicCache()
    for layer in range(layers):
        for cache, tokens in ((own, length - 1), (cross, length)):
            keys = torch.zeros(shape.batch_size, heads, tokens, size, dtype=module.dtype)
            cache.update(keys, keys.clone(), layer)
    cached = EncoderDecoderCache(own, cross)
    for layer in range(layers):
        cached.is_updated[layer] = True
    hidden = torch.zeros(shape.batch_size, length, config.hidden_size, dtype=module.dtype)
    output = MoEModelOutput if config.model_type == "switch_transformers" else BaseModelOutput
    kwargs = {
        "encoder_outputs": output(last_hidden_state=hidden),
        "decoder_input_ids": ids[:, :1].clone(),
        "past_key_values": cached,
        "use_cache": True,
    }
    return _program(module, kwargs, shape, length, notes)


def _image_program(module: Any, shape: StepShape, notes: tuple[str, ...]) -> Program:
    if shape.mode == "decode":
        raise ModelError(f"{type(module).__name__} does not generate tokens; it has no decode step")
    size = getattr(module.config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else size
    channels = getattr(module.config, "num_channels", 3)
    pixels = torch.zeros(shape.batch_size, channels, height, width, dtype=shape.weight_dtype)
    kwargs: dict[str, Any] = {"pixel_values": pixels}
    if shape.mode == "train" and "Classification" in type(module).__name__:
        kwargs["labels"] = torch.zeros(shape.batch_size, dtype=torch.int64)
    return _program(module, kwargs, shape, None, notes)


def _program(
    module: Any, kwargs: dict[str, Any], shape: StepShape, length: int | None, notes: tuple[str, ...]
) -> Program:
    return Program(
        module,
        kwargs=kwargs,
        batch_size=shape.batch_size,
        sequence_length=length,
        notes=notes,
        symbolic_context=_symbolic_answers,
    )


def _is_language_model(module: Any) -> bool:
    name = type(module).__name__
    return any(part in name for part in ("ForCausalLM", "LMHead", "ForMaskedLM", "ForConditionalGeneration"))


def _is_encoder(module: Any) -> bool:
    return not getattr(module.config, "is_decoder", False) and module.config.model_type in (
        "bert",
        "roberta",
        "electra",
    )


def _default_length(config: Any) -> int:
    for name in ("max_position_embeddings", "n_positions"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    raise ModelError("the config states no sequence length; give --sequence-length")


def _check_length(config: Any, length: int) -> None:
    """Learned positions end somewhere; rotary and relative ones do not."""
    table = getattr(config, "max_position_embeddings", None)
    rotates = getattr(config, "rope_parameters", None) or getattr(config, "rope_theta", None)
    is_relative = getattr(config, "model_type", "") in ("t5", "switch_transformers")
    if isinstance(table, int) and not rotates and not is_relative and length > table:
        raise ModelError(f"sequence length {length} is beyond the model's {table} learned positions")


@contextmanager
def _symbolic_answers() -> Iterator[None]:
    """Sequences are not packed; transformers would see that from the positions and use a causal kernel."""
    from transformers import masking_utils

    original = masking_utils.find_packed_sequence_indices

    def find_none(position_ids: torch.Tensor) -> None:
        indices = original(position_ids)
        if indices is not None:
            (indices[:, -1] == 0).all()

    masking_utils.find_packed_sequence_indices = find_none
    try:
        with _quiet_transformers():
            yield
    finally:
        masking_utils.find_packed_sequence_indices = original


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No downloads and no advice on standard error while a model is built."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
