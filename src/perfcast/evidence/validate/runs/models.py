"""Transformers of measured runs: from a table's columns, or from the catalog by name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from perfcast.catalogs.models import load_model
from perfcast.core.model.transformer import Transformer
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.runs.lines import Line, UnreadableError
from perfcast.workload.models.transformer import read_transformer

#: What Llama and its kin have in common, as keywords of ``Transformer``.
GATED: dict[str, Any] = {
    "is_gated": True,
    "activation": "silu",
    "norm": "rmsnorm",
    "has_linear_bias": False,
    "has_qkv_bias": False,
    "positions": "rope",
    "ties_embeddings": False,
}


def padded(size: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that holds ``size``: vocabularies are padded for tensor parallelism.

    >>> padded(50257, 128)
    50304
    """
    return -(-size // multiple) * multiple


def transformer_of(
    line: Line,
    *,
    head_size: int | None = None,
    ffn_hidden_size: int | None = None,
    vocab_size: int | None = None,
    **facts: Any,
) -> Transformer:
    """A transformer from the sizes in the columns of a line.

    Args:
        head_size: The hidden size over the heads by default.
        ffn_hidden_size, vocab_size: The line's by default.
        facts: What sizes do not say, as keywords of ``Transformer``.

    Raises:
        UnreadableError: A column is empty, or the heads do not divide the hidden size.
    """
    hidden, heads = line.whole("hidden"), line.whole("heads")
    if head_size is None and hidden % heads:
        raise UnreadableError("impossible value")
    return Transformer(
        num_layers=line.whole("layers"),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=line.whole("kv_heads", heads),
        head_size=hidden // heads if head_size is None else head_size,
        ffn_hidden_size=line.whole("ffn_hidden") if ffn_hidden_size is None else ffn_hidden_size,
        vocab_size=line.whole("vocab") if vocab_size is None else vocab_size,
        **facts,
    )


def find_published(name: str, num_layers: int) -> Transformer | None:
    """A model of the catalog cut to some layers: 'deepseek-v3', 'llama3-70b (12 layers)'; None for others.

    A mixture of experts keeps one dense layer where it is cut.
    """
    try:
        entry = load_model(re.sub(r"\s*\(.*\)", "", name))
    except UnknownNameError:
        return None
    model = read_transformer(entry.config, entry.architecture)
    experts = model.experts
    if experts and experts.num_dense_layers and num_layers < model.num_layers:
        experts = replace(experts, num_dense_layers=1)
    return replace(model, num_layers=num_layers, experts=experts)
