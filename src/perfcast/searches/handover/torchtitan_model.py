"""Which of torchtitan's models a transformer is, or a module that adds its sizes to them.

Sizes after torchtitan 0.2.2: torchtitan/models/{llama3,qwen3,deepseek_v3}/__init__.py; the width of Llama's
MLP after models/llama3/model/model.py (FeedForward).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.core.model.transformer import Transformer

MODEL_MODULE = "model_sizes"
_TABLE = "torchtitan_models.toml"
_SIZES = (
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "num_kv_heads",
    "ffn_hidden_size",
    "vocab_size",
    "ties_embeddings",
    "has_head_norms",
)


@dataclass(frozen=True)
class Flavor:
    """A model of torchtitan.

    Attributes:
        has_pipeline, has_context: Whether torchtitan can cut it into stages, its sequences over ranks.
        module: Text of a module that adds the sizes; empty where torchtitan has them.
    """

    name: str
    flavor: str
    has_pipeline: bool = True
    has_context: bool = True
    module: str = ""


def find_flavor(name: str, model: Transformer) -> Flavor | None:
    """The model of torchtitan with these sizes; None where it has no such architecture."""
    if not _is_plain(model):
        return None
    for row in _load_table():
        if _describe(model) == {key: row.get(key) for key in _describe(model)}:
            return Flavor(row["name"], row["flavor"], row["has_pipeline"], row["has_context"])
    return _extend_llama(name, model) if _is_llama(model) else None


def _load_table() -> list[dict[str, Any]]:
    text = Path(__file__).with_name(_TABLE).read_text(encoding="utf-8")
    table: list[dict[str, Any]] = tomllib.loads(text)["models"]
    return table


def _describe(model: Transformer) -> Mapping[str, int | bool | None]:
    experts, latent = model.experts, model.latent_attention
    return {
        **{key: getattr(model, key) for key in _SIZES},
        "num_experts": experts.num_experts if experts else None,
        "experts_per_token": experts.experts_per_token if experts else None,
        "expert_ffn_hidden_size": experts.ffn_hidden_size if experts else None,
        "num_dense_layers": experts.num_dense_layers if experts else None,
        "kv_rank": latent.kv_rank if latent else None,
    }


def _is_plain(model: Transformer) -> bool:
    """Whether it is built as all of torchtitan's language models are."""
    return (
        (model.activation, model.is_gated, model.norm) == ("silu", True, "rmsnorm")
        and (model.positions, model.norm_placement) == ("rope", "before")
        and not (model.has_linear_bias or model.has_qkv_bias or model.has_dropout)
        and not (model.num_window_layers or model.num_prediction_layers)
        and model.is_causal
    )


def _is_llama(model: Transformer) -> bool:
    return (
        model.experts is None
        and model.latent_attention is None
        and not (model.ties_embeddings or model.has_head_norms)
        and model.rope_size in (0, model.head_size)
        and model.head_size * model.num_attention_heads == model.hidden_size
    )


def _extend_llama(name: str, model: Transformer) -> Flavor:
    """Llama 3 of other sizes; its MLP is int(int(8/3 · dim) · multiplier), rounded up to multiple_of."""
    width, base = model.ffn_hidden_size, 8 * model.hidden_size // 3
    multiple = width & -width
    module = _MODULE.format(
        name=name,
        dim=model.hidden_size,
        layers=model.num_layers,
        heads=model.num_attention_heads,
        kv_heads=model.num_kv_heads,
        vocab=model.vocab_size,
        multiple=multiple,
        multiplier=(width - multiple / 2) / base if multiple > 1 else (width + 0.5) / base,
    )
    return Flavor("llama3", name, module=module)


_MODULE = '''\
"""Sizes of {name} for torchtitan's Llama 3. Yours to check: rope_theta, which a plan does not state."""

from torchtitan.models.llama3 import llama3_args
from torchtitan.models.llama3.model.args import TransformerModelArgs

llama3_args["{name}"] = TransformerModelArgs(
    dim={dim},
    n_layers={layers},
    n_heads={heads},
    n_kv_heads={kv_heads},
    vocab_size={vocab},
    multiple_of={multiple},
    ffn_dim_multiplier={multiplier!r},
)
'''
