"""Transformers of measured runs: from a table's columns, or from the catalog by name."""

from __future__ import annotations

import re
from dataclasses import replace

from perfcast.catalog.models import load_model
from perfcast.core.transformer import Transformer
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.runs.lines import Line, UnreadableError
from perfcast.workload.models.transformer import read_transformer


def padded(size: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that holds ``size``: vocabularies are padded for tensor parallelism.

    >>> padded(50257, 128)
    50304
    """
    return -(-size // multiple) * multiple


def llama_of(line: Line, *, ties_embeddings: bool = False) -> Transformer:
    """A Llama-like model from the columns of a line.

    Raises:
        UnreadableError: A column is empty.
    """
    hidden, heads = line.whole("hidden"), line.whole("heads")
    return Transformer(
        num_layers=line.whole("layers"),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=line.whole("kv_heads", heads),
        head_size=hidden // heads,
        ffn_hidden_size=line.whole("ffn_hidden"),
        vocab_size=line.whole("vocab"),
        is_gated=True,
        activation="silu",
        norm="rmsnorm",
        has_linear_bias=False,
        has_qkv_bias=False,
        ties_embeddings=ties_embeddings,
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


def check_world(line: Line, *degrees: int) -> None:
    """Raises UnreadableError where the degrees do not multiply to the number of devices."""
    world = 1
    for degree in degrees:
        world *= degree
    if world != line.whole("num_gpus"):
        raise UnreadableError("impossible value")
