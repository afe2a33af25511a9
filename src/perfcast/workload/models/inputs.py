"""Inputs for transformers models: tokens, images, caches, by what the model is and what is asked of it."""

from __future__ import annotations

from typing import Any

import torch

from perfcast.errors import ModelError
from perfcast.workload.models.transformers_context import symbolic_answers
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program


def program_with_inputs(module: Any, shape: StepShape, notes: tuple[str, ...]) -> Program:
    """The module with the inputs that its kind takes, in the mode asked for.

    Raises:
        ModelError: The model has no such mode, or takes something that no config describes.
    """
    training = shape.mode == "train"
    if training and shape.recompute == "full":
        if not getattr(module, "supports_gradient_checkpointing", False):
            raise ModelError(f"{type(module).__name__} does not support recompute=full")
        _checkpoint_layers(module)
        if shape.tuning.adapters is not None:  # as PEFT does (peft_model.py, gradient checkpointing)
            module.enable_input_require_grads()
    if module.main_input_name == "pixel_values":
        return _image_program(module, shape, notes)
    if shape.image_size is not None:
        raise ModelError(f"{type(module).__name__} takes no images: leave out the image size")
    if module.main_input_name != "input_ids":
        raise ModelError(
            f"{type(module).__name__} takes {module.main_input_name}, which no config describes; "
            "give the module and its inputs as FILE.py:FUNCTION"
        )
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
    if any(not hasattr(layer, "lazy_initialization") for layer in cache.layers) or _has_other_state(config):
        raise ModelError(
            f"{type(module).__name__} keeps another state than keys and values; "
            "its decode step can be given as FILE.py:FUNCTION"
        )
    for layer in cache.layers:
        heads = _num_kv_heads(config)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        key_size, value_size = size, size
        if getattr(config, "kv_lora_rank", None):
            heads, key_size, value_size = 1, config.kv_lora_rank, config.qk_rope_head_dim  # latents
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


def _has_other_state(config: Any) -> bool:
    """State-space layers, alone or among attention."""
    return any(hasattr(config, name) for name in ("mamba_d_state", "state_size", "ssm_state_size"))


def _num_kv_heads(config: Any) -> int:
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return 1
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", None)
    return int(heads or config.num_attention_heads)


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
        symbolic_context=symbolic_answers,
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
