"""A module as it is tuned: frozen parts, adapters beside its linear layers, four-bit weights.

PEFT names linear layers by the last part of their name (huggingface/peft: utils/constants.py); 'all-linear'
are all but the output layer (tuners/tuners_utils.py, _maybe_include_all_linear_layers).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import nn

from perfcast.core.tuning.trained import TARGETS, Adapters, Part, Target, Tuning
from perfcast.errors import ModelError
from perfcast.workload.models.tuned.linear import AdaptedLinear, FourBitLinear

_TARGETS: dict[tuple[Target, ...], str] = {
    ("q",): "q_proj query q_lin wq to_q q q_a_proj q_b_proj",
    ("k",): "k_proj key k_lin wk to_k k",
    ("v",): "v_proj value v_lin wv to_v v",
    ("k", "v"): "kv_a_proj_with_mqa kv_b_proj",
    ("q", "k", "v"): "c_attn qkv_proj query_key_value Wqkv qkv in_proj",
    ("o",): "o_proj out_proj out_lin wo o",
    ("gate",): "gate_proj w1 wi_0",
    ("up",): "up_proj fc1 c_fc dense_h_to_4h lin1 w3 wi wi_1 fc_in",
    ("gate", "up"): "gate_up_proj",
    ("down",): "down_proj fc2 dense_4h_to_h lin2 w2 fc_out",
}
_BY_NAME = {name: targets for targets, names in _TARGETS.items() for name in names.split()}
_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.")
_PARTS: tuple[tuple[Part, str], ...] = (
    ("router", r"router|\.mlp\.gate\.|block_sparse_moe\.gate\."),
    ("experts", r"\.experts\."),
    ("norms", r"norm|ln_|layernorm|\.ln"),
    ("attention", r"attn|attention"),
    ("mlp", r"mlp|ffn|feed_?forward|\.fc\d|intermediate|\.output\.dense|dense_|\.lin\d"),
)


def tune_module(module: nn.Module, tuning: Tuning, dtype: torch.dtype) -> None:
    """Freeze what does not train, and put adapters where they are asked for.

    Args:
        dtype: Of products, in which four-bit weights are widened.

    Raises:
        ModelError: No linear layer, or no parameter, is of a part or target that is named.
    """
    if tuning.is_full:
        return
    if tuning.adapters is None:
        _freeze(module, tuning)
        return
    module.requires_grad_(False)
    _adapt(module, tuning.adapters, dtype)


# ---- adapters ----------------------------------------------------------------------------------------------


def _adapt(module: nn.Module, adapters: Adapters, dtype: torch.dtype) -> None:
    output, found = _output_layer(module), 0
    for name, layer in list(_linear_layers(module)):
        if layer is output:
            continue
        base: nn.Module = layer
        if adapters.is_quantised:
            base = FourBitLinear(layer, *_features(layer), dtype)
        is_target = set(adapters.targets) == set(TARGETS) or bool(targets_of(name) & set(adapters.targets))
        if is_target:
            found += 1
            base = AdaptedLinear(
                base, *_features(layer), rank=adapters.rank, dropout=adapters.dropout,
                dtype=torch.float32, clones=base is not layer,
            )  # fmt: skip
        if base is not layer:
            _replace(module, name, base)
    if not found:
        names = sorted({name.rpartition(".")[2] for name, _ in _linear_layers(module)})
        raise ModelError(
            f"no linear layer of {type(module).__name__} is a target of {'+'.join(adapters.targets)}; they "
            f"are called {', '.join(names) or 'nothing: it has none'}"
        )


def targets_of(name: str) -> set[Target]:
    """Which targets a linear layer is, by its name: one, the parts of a joint one, or none.

    >>> sorted(targets_of("model.layers.0.self_attn.q_proj"))
    ['q']
    """
    last, inside = name.rpartition(".")[2], bool(_ATTENTION.search(name.rpartition(".")[0]))
    if last in ("dense", "c_proj"):
        return {"o"} if inside else {"up"} if "intermediate" in name else {"down"}
    return set(_BY_NAME.get(last, ()))


def _linear_layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear) or type(layer).__name__ == "Conv1D":
            yield name, layer


def _features(layer: nn.Module) -> tuple[int, int]:
    """Inputs and outputs; GPT-2's Conv1D keeps its weight the other way around."""
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    inputs, outputs = cast("nn.Parameter", layer.weight).shape
    return inputs, outputs


def _replace(module: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, layer)


def _output_layer(module: Any) -> nn.Module | None:
    found = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    return found if isinstance(found, nn.Module) else None


# ---- frozen parts ------------------------------------------------------------------------------------------


def _freeze(module: nn.Module, tuning: Tuning) -> None:
    heads = _heads(module)
    frozen, trained = dict.fromkeys(tuning.frozen_parts, 0), 0
    last_layer = -1
    for name, parameter in module.named_parameters():
        part, layer = part_of_parameter(name, heads), _LAYER.search(f"{name}.")
        last_layer = max(last_layer, int(layer[1]) if layer else -1)
        in_row = layer is not None and tuning.freezes_layer(int(layer[1]))
        if part is not None and not tuning.trains(part):
            frozen[part if part in frozen else "mlp"] += 1
        if in_row or (part is not None and not tuning.trains(part)):
            parameter.requires_grad_(False)
        else:
            trained += 1
    for part, count in frozen.items():
        if not count:
            raise ModelError(f"--freeze {part}: {type(module).__name__} has no parameter of it")
    if tuning.frozen_layers is not None and tuning.frozen_layers[1] > last_layer:
        row = f"{tuning.frozen_layers[0]}-{tuning.frozen_layers[1]}"
        raise ModelError(f"--freeze layers:{row}: the last layer of {type(module).__name__} is {last_layer}")
    if not trained:
        raise ModelError("everything is frozen; nothing trains")


def _heads(module: nn.Module) -> tuple[str, ...]:
    """Names of output layers, with the dot behind them."""
    output = _output_layer(module)
    named = [name for name, layer in module.named_modules() if layer is output and output is not None]
    return tuple(f"{name}." for name in (*named, "lm_head", "score", "classifier", "cls", "qa_outputs"))


def part_of_parameter(name: str, heads: tuple[str, ...]) -> Part | None:
    """The part of a model that a parameter belongs to, by its name; None: none that can be named."""
    if name.startswith(heads):
        return "head"
    if _LAYER.search(f"{name}.") is None and re.search(r"embed|wte|wpe", name, re.IGNORECASE):
        return "embedding"
    return next((part for part, pattern in _PARTS if re.search(pattern, name, re.IGNORECASE)), None)
