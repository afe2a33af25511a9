"""Keys of a config.json, and what each may hold: what any reader of one relies on, checked once.

A key that is not listed is transformers' own to judge. null says that a key is not given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from perfcast.errors import ModelError

#: Tables whose keys are names of other things.
_OF_NAMES = ("auto_map", "id2label", "label2id", "task_specific_params")
_MOST_SHOWN = 60


def check_keys(config: Mapping[str, Any], where: str) -> None:
    """Look at every key that is known, in the config and in the tables within it.

    Raises:
        ModelError: One holds something else than it may; names file and key.
    """
    for place, table in _tables(config, where):
        _check_table(table, place)


def _check_table(table: Mapping[str, Any], place: str) -> None:
    for key, value in table.items():
        is_quantisation = ": quantization_config" in place
        kind = (_OF_QUANTISATION if is_quantisation else _KINDS).get(key)
        if kind is None and key.endswith("_config") and not is_quantisation:
            kind = "a table"
        if kind is not None and value is not None and not _HOLDS[kind](value):
            raise ModelError(f"{place}: {key} is {_shown(value)}; expected {kind}")
    _check_heads(table, place)


def check_single(config: object) -> None:
    """Of what closed forms are made of, none may differ from layer to layer.

    Raises:
        ModelError: A size is a list; names the key.
    """
    for key in (*_SIZES, *_COUNTS, "num_hidden_layers"):
        value = getattr(config, key, None)
        if isinstance(value, list | tuple | Mapping):
            raise ModelError(f"{key} is {_shown(value)}; the closed form takes one number for all layers")


def _tables(table: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The table and those within it, with their places."""
    yield where, table
    for key, value in table.items():
        if isinstance(value, Mapping) and key not in _OF_NAMES:
            yield from _tables(value, f"{where}: {key}")


def _check_heads(table: Mapping[str, Any], where: str) -> None:
    heads, kv_heads = table.get("num_attention_heads"), table.get("num_key_value_heads")
    if isinstance(heads, int) and isinstance(kv_heads, int) and heads % kv_heads:
        raise ModelError(
            f"{where}: {heads} num_attention_heads do not divide among {kv_heads} num_key_value_heads"
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are(value: object, holds: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and all(holds(item) for item in value)


def _is_word(value: object) -> bool:
    return isinstance(value, str)


_HOLDS: Mapping[str, Callable[[object], bool]] = MappingProxyType(
    {
        "a whole number above 0, or a list of them": lambda value: (
            (_is_whole(value) and value != 0) or _are(value, lambda item: _is_whole(item) and item != 0)
        ),
        "a whole number from 0, or a list of them": lambda value: _is_whole(value) or _are(value, _is_whole),
        "a whole number from -1": lambda value: _is_whole(value) or value == -1,
        "a whole number above 0, or a table of them": lambda value: (
            isinstance(value, Mapping) or (_is_whole(value) and value != 0)
        ),
        "a finite number": _is_number,
        "a number from 0 to 1": lambda value: _is_number(value) and 0 <= value <= 1,  # type: ignore[operator]
        "true or false": lambda value: isinstance(value, bool) or value in (0, 1),
        "a text": _is_word,
        "a list of texts": lambda value: _are(value, _is_word),
        "a list of whole numbers": lambda value: _are(value, _is_whole),
        "a table": lambda value: isinstance(value, Mapping),
        "a table of tables": lambda value: (
            isinstance(value, Mapping) and all(isinstance(item, Mapping) for item in value.values())
        ),
        "true, false or a text": lambda value: isinstance(value, bool | str),
    }
)

#: Sizes that no model is without.
_SIZES = """
    hidden_size n_embd d_model vocab_size num_attention_heads n_head num_key_value_heads n_layer
    n_positions
""".split()
_COUNTS = """
    d_ff d_kv decoder_sparse_step head_dim num_experts_per_tok ffn_dim first_k_dense_replace
    index_head_dim index_n_heads index_topk intermediate_size kv_lora_rank linear_conv_kernel_dim
    linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_value_head_dim
    moe_intermediate_size mtp_num_hidden_layers n_group n_inner n_routed_experts n_shared_experts
    num_experts num_local_experts num_mtp_modules num_nextn_predict_layers
    original_max_position_embeddings q_lora_rank qk_nope_head_dim qk_rope_head_dim rotary_dim
    shared_expert_intermediate_size sliding_window topk_group type_vocab_size v_head_dim
    word_embed_proj_dim
""".split()
_SHARES = """
    attention_dropout attention_probs_dropout_prob attn_pdrop dropout embd_pdrop hidden_dropout
    hidden_dropout_prob resid_pdrop residual_dropout
""".split()
_NUMBERS = """
    max_position_embeddings partial_rotary_factor attn_logit_softcapping final_logit_softcapping
""".split()
_SWITCHES = """
    _remove_final_layer_norm add_cross_attention attention_bias do_layer_norm_before enable_bias
    is_decoder layer_norm_elementwise_affine mlp_bias qk_layernorm tie_word_embeddings use_bias
    use_parallel_residual
""".split()
_WORDS = """
    activation_function hidden_act hidden_activation model_type topk_method dtype torch_dtype
""".split()

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_SIZES, "a whole number above 0, or a list of them"),
        **dict.fromkeys(_COUNTS, "a whole number from 0, or a list of them"),
        **dict.fromkeys(_SHARES, "a number from 0 to 1"),
        **dict.fromkeys(_NUMBERS, "a finite number"),
        **dict.fromkeys(_SWITCHES, "true or false"),
        **dict.fromkeys(_WORDS, "a text"),
        **dict.fromkeys(("architectures", "layer_types", "indexer_types"), "a list of texts"),
        "num_hidden_layers": "a whole number above 0, or a table of them",
        "mlp_only_layers": "a list of whole numbers",
        "rope_parameters": "a table",
        "rope_scaling": "a table",
    }
)

#: Of ``quantization_config`` and the tables within it.
_OF_QUANTISATION: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("modules_to_not_convert", "ignore", "exclude_modules"), "a list of texts"),
        **dict.fromkeys(("bits", "w_bit", "num_bits"), "a whole number from -1"),
        **dict.fromkeys(("quant_method", "quant_algo", "activation_scheme", "type", "strategy"), "a text"),
        **dict.fromkeys(("load_in_4bit", "_load_in_4bit", "load_in_8bit", "_load_in_8bit"), "true or false"),
        **dict.fromkeys(("weights", "input_activations", "output_activations", "quantization"), "a table"),
        "config_groups": "a table of tables",
        "group_size": "a whole number from -1",
        "dynamic": "true, false or a text",
        "weight_block_size": "a list of whole numbers",
    }
)
