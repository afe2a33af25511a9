"""A forward without gradients, prefill or one decode step, of transformers' module on one device.

Nothing is saved: weights, the cache, and what the functions that are running hold in local variables. That is
largest in attention, in the MLP, or when the logits of all new tokens are there; T are the new tokens.
Source of what is held when: transformers 5, models/*/modeling_*.py and cache_utils.py.
"""

from __future__ import annotations

from perfcast.core.forecast.footprint import PeakCandidate, Term
from perfcast.core.tensor import Category
from perfcast.core.transformer import Experts, Transformer
from perfcast.memory.footprint.pytorch.modules import FP32, Setting

_SOURCE = "transformers: modeling_*.py, cache_utils.py"


def inference_moments(setting: Setting, mode: str, num_parameters: int) -> tuple[PeakCandidate, ...]:
    """Attention, MLP and head of a prefill, or of one token against a cache."""
    tokens = setting.tokens if mode == "prefill" else setting.batch_size
    size = setting.element_bytes
    weights = Term("weights", Category.PARAMETER, num_parameters * size, f"{num_parameters}·{size}", _SOURCE)
    inputs = Term("tokens", Category.INPUT, 8 * tokens, f"1 · ({tokens}·8)", "int64")
    base = (weights, inputs, *_cache(setting, mode))
    return (
        PeakCandidate("attention of a layer", (*base, _stream(setting, tokens), _attention(setting, tokens))),
        PeakCandidate("MLP of a layer", (*base, _stream(setting, tokens), _mlp(setting, tokens))),
        PeakCandidate("logits", (*base, *_logits(setting, tokens))),
    )


def _cache(setting: Setting, mode: str) -> tuple[Term, ...]:
    """Keys and values of all layers: L·B·S·2·k·d·e bytes; with latent attention their latents.

    A windowed layer's preallocated cache ends at its window; a prefill's keeps a view of everything. An
    encoder has none.
    """
    model = setting.model
    if not model.is_causal:
        return ()
    latent = model.latent_attention
    features = 2 * model.num_kv_heads * model.head_size
    if latent is not None:
        features = latent.kv_rank + latent.rope_head_size
    length = setting.sequence_length
    window = min(length, model.sliding_window) if mode == "decode" and model.sliding_window else length
    num_windowed = model.num_window_layers if window < length else 0
    rows = setting.batch_size * (length * (model.num_layers - num_windowed) + window * num_windowed)
    size = setting.element_bytes
    formula = f"{rows}·{features}·{size}"
    return (Term("cache", Category.KV_CACHE, rows * features * size, formula, _SOURCE),)


def _stream(setting: Setting, tokens: int) -> Term:
    """Rows of the embedding, the layer's input and the norm's output: three of T·H·e."""
    rows, size = 3 * tokens * setting.model.hidden_size, setting.element_bytes
    return Term("residual stream", Category.TEMPORARY, rows * size, f"{rows}·{size}", _SOURCE)


def _attention(setting: Setting, tokens: int) -> Term:
    """Queries, keys and values with either three more of the queries' size while they are rotated, or the
    scores (see ``_score_bytes``) with keys and values of the whole context copied for every head.

    Latents are expanded to keys and values of the whole context, of which the keys are copied once more to be
    joined with their rotated part.
    """
    model, size, latent = setting.model, setting.element_bytes, setting.model.latent_attention
    heads, rows = model.num_attention_heads, setting.batch_size * setting.sequence_length
    queries, keys = heads * model.head_size, model.num_kv_heads * model.head_size
    elements = tokens * (queries + 2 * keys)
    if latent is not None:
        made = 2 * latent.nope_head_size + latent.rope_head_size + latent.value_head_size
        elements = tokens * (queries + heads * latent.value_head_size) + rows * heads * made
    elif _has_scores(setting):
        elements += 2 * rows * queries if heads > model.num_kv_heads else 0
    else:
        elements += tokens * queries * (3 if model.positions == "rope" else 1)
    scores, masks = _score_bytes(setting, tokens)
    held = scores * (2 if size == FP32 else 5) + masks
    formula = f"{elements}·{size} + {held} of scores"
    return Term("heads of attention", Category.TEMPORARY, elements * size + held, formula, _SOURCE)


def _has_scores(setting: Setting) -> bool:
    return setting.attention == "math" or not setting.model.has_fused_attention


def _score_bytes(setting: Setting, tokens: int) -> tuple[int, int]:
    """Bytes of the scores once, B·h·T·S·e, and of the masks, B·T·S·e for each kind of layer; 0 without.

    While they are normalised, scores are held twice in fp32; in fewer bytes masked, cast to fp32 and as
    softmax, five times their size. The caller keeps them until the layer is done.
    """
    model = setting.model
    if not _has_scores(setting):
        return 0, 0
    masks = tokens * setting.sequence_length * setting.element_bytes
    kinds = (model.num_window_layers > 0) + (model.num_window_layers < model.num_layers)
    return masks * model.num_attention_heads, masks * kinds if model.is_causal else 0


def _mlp(setting: Setting, tokens: int) -> Term:
    """The sum after attention, T·H·e, and what the activation needs: T·F·e twice, gated three times; the
    parts of gelu_new four times; the layer's scores, which a local variable keeps. Experts: ``_experts``.
    """
    model, size = setting.model, setting.element_bytes
    num_bytes = _mlp_copies(model) * tokens * model.ffn_hidden_size * size
    if model.experts is not None:
        dense = num_bytes if model.experts.num_dense_layers else 0
        num_bytes = max(dense, _experts(model, model.experts, tokens, size))
    num_bytes += tokens * model.hidden_size * size + sum(_score_bytes(setting, tokens))
    return Term("rows of the MLP", Category.TEMPORARY, num_bytes, f"{num_bytes} of {tokens} tokens", _SOURCE)


def _mlp_copies(model: Transformer) -> int:
    """Blocks of T·F elements that are held at once."""
    if model.is_gated:
        return 4 if model.has_fused_gate else 3
    return 4 if model.activation == "gelu_new" else 2


def _experts(model: Transformer, experts: Experts, tokens: int, size: int) -> int:
    """Bytes for T·k rows sorted by expert: with gate and up in one block, the activation and its product, or
    with their outputs, those weighted in fp32, and the same in the order of the tokens.
    """
    rows = tokens * experts.experts_per_token
    inside = rows * 4 * experts.ffn_hidden_size * size
    outside = rows * model.hidden_size * (size + 2 * FP32)
    return rows * model.hidden_size * size + max(inside, outside)


def _logits(setting: Setting, tokens: int) -> tuple[Term, ...]:
    """T·V·e, twice where they are capped, and the last hidden states (BERT: and its transform)."""
    model, size = setting.model, setting.element_bytes
    count, rows = 2 if model.caps_logits else 1, 2 * tokens if model.has_head_transform else tokens
    logits, features = count * tokens * model.vocab_size * size, model.embedding_size or model.hidden_size
    return (
        Term(
            "logits", Category.TEMPORARY, logits, f"{count} · ({tokens}·{model.vocab_size}·{size})", _SOURCE
        ),
        Term(
            "last hidden states",
            Category.TEMPORARY,
            rows * features * size,
            f"1 · ({rows}·{features}·{size})",
            _SOURCE,
        ),
    )
