"""Transformers of published training runs, from a line's sizes and the family that its name tells.

Sizes are the line's own; a name decides what sizes do not say (gates, norms, biases, positions). Mixtures of
experts and latent attention come from the catalog, cut to the line's layers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from perfcast.catalogs.models import load_models
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.evidence.validate.runs.lines import Line, UnreadableError
from perfcast.evidence.validate.runs.models import GATED, find_published, transformer_of

_GPT: dict[str, Any] = {"activation": "gelu", "positions": "learned", "ties_embeddings": True}


@dataclass(frozen=True)
class _Family:
    """What a name tells: keywords of ``Transformer``, the vocabulary where the line has none, and experts."""

    pattern: str
    facts: dict[str, Any]
    vocab_size: int | None = None
    experts: Experts | None = None


#: The first pattern that is found in the model's name counts. Vocabularies: those of the models' own
#: configurations; GPT-2's, padded, for Megatron's GPT (51,200 in Narayanan et al., SC 2021, table 1).
_FAMILIES = (
    _Family(r"grok", GATED | {"activation": "gelu"}, 131_072, Experts(8, 2, 32_768)),
    _Family(r"llama.?-?2|llama2", GATED, 32_000),
    _Family(r"llama", GATED, 128_256),
    _Family(r"mistral|yi-|internlm|baichuan|olmo", GATED, 32_000),
    _Family(r"qwen", GATED | {"has_qkv_bias": True}, 152_064),
    _Family(r"gemma", GATED | {"activation": "gelu", "ties_embeddings": True}, 256_000),
    _Family(
        r"nemotron",
        {"activation": "relu", "has_linear_bias": False, "positions": "rope", "ties_embeddings": False},
        256_000,
    ),
    _Family(r"mpt", _GPT | {"has_linear_bias": False, "positions": "none"}, 50_368),
    _Family(r"bloom", _GPT | {"positions": "none", "has_embedding_norm": True}, 250_880),
    _Family(r"gpt-?2", _GPT, 50_257),
    _Family(r"gpt|megatron|opt|mt-nlg|\d+b$", _GPT, 51_200),
    _Family(r"", _GPT, 51_200),
)


def published_model(line: Line, vocab_size: int | None = None) -> tuple[Transformer, tuple[str, ...]]:
    """The transformer of a line, and what was assumed of it.

    Args:
        vocab_size: Where the line has none; by default that of models of the family.

    Raises:
        UnreadableError: Experts that no column and no catalog entry describe; sizes that contradict.
    """
    name, num_layers = line.text("model"), line.whole("layers")
    known = _find_experts(name, num_layers)
    if known is not None:
        return known, (f"experts and sizes of the catalog's {_slug(name)}",)
    family = next(f for f in _FAMILIES if re.search(f.pattern, name.lower()))
    if family.experts is None and (line.whole("ep", 1) > 1 or re.search(r"\bmoe\b|\d+x\d+b", name.lower())):
        raise UnreadableError("incomplete: num_experts")
    facts, assumed = dict(family.facts), []
    ffn = int(line.number("ffn_hidden") or 0)
    if not ffn:
        ffn = 4 * line.whole("hidden")
        facts = facts | {"is_gated": False, "activation": "gelu"} if facts.get("is_gated") else facts
        assumed.append("an MLP of four times the hidden size, without a gate")
    vocab = int(line.number("vocab") or 0)
    if not vocab:
        vocab = vocab_size or family.vocab_size or 51_200
        assumed.append(f"a vocabulary of {vocab} words, as such models have")
    model = transformer_of(
        line,
        ffn_hidden_size=ffn,
        vocab_size=vocab,
        experts=family.experts,
        max_positions=line.whole("seq_len") if facts.get("positions") == "learned" else 0,
        **facts,
    )
    return model, tuple(assumed)


def is_lora(line: Line) -> bool:
    """Whether adapters alone are trained, as the model's name says."""
    return re.search(r"\blora\b|\bpeft\b", line.text("model").lower()) is not None


def _slug(name: str) -> str:
    """A catalog name from what a table calls a model: 'Mixtral-8x7B' → 'mixtral-8x7b'."""
    text = re.sub(r"\s*\(.*\)", "", name.lower()).strip()
    return re.sub(r"[\s_]+", "-", text)


def _find_experts(name: str, num_layers: int) -> Transformer | None:
    """A mixture of experts of the catalog that the name means, or None."""
    slug = _slug(name)
    candidates = [slug, re.sub(r"-?\d+(\.\d+)?b$", "", slug)]
    squeezed = {re.sub(r"[^a-z0-9.]", "", key): key for key in load_models()}
    for candidate in candidates:
        key = squeezed.get(re.sub(r"[^a-z0-9.]", "", candidate))
        model = find_published(key, num_layers) if key and _is_language_model(key) else None
        if model is not None and model.experts is not None:
            return replace(model, has_dropout=False)
    return None


def _is_language_model(key: str) -> bool:
    return re.match(r"mixtral|deepseek|qwen3|switch", key) is not None
