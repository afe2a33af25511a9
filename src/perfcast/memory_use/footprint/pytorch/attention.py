"""Attention of transformers' modules as steps on a tape."""

from __future__ import annotations

from perfcast.core.model.transformer import LatentAttention
from perfcast.memory_use.footprint.pytorch.modules import (
    FP32,
    EagerSetting,
    cap,
    cast,
    linear,
    norm,
    split,
    value_of,
)
from perfcast.memory_use.footprint.pytorch.tape import Value

HEADS_IN = "queries, keys and values"


def attention(setting: EagerSetting, x: Value, window: int) -> Value:
    """Products for queries, keys and values, rotation, the core, the output's product."""
    model = setting.model
    if model.latent_attention is not None:
        query, key, value = _latent_heads(setting, x, model.latent_attention)
        value_size = model.latent_attention.value_head_size
    else:
        query, key, value = _heads(setting, x)
        value_size = model.head_size
    is_masked = 0 < window < setting.sequence_length
    core = _flash if setting.attention == "flash" and model.has_fused_attention else _math
    output = core(setting, query, key, value, model.num_attention_heads * value_size, is_masked)
    return linear(setting, output, model.hidden_size, model.has_linear_bias, "outputs of attention")


def _heads(setting: EagerSetting, x: Value) -> tuple[Value, Value, Value]:
    model = setting.model
    queries, keys = model.num_attention_heads * model.head_size, model.num_kv_heads * model.head_size
    if model.has_fused_qkv:
        whole = linear(setting, x, queries + 2 * keys, model.has_qkv_bias, HEADS_IN)
        query, key, value = split(setting, whole, (queries, keys, keys))
    else:
        query, key, value = (
            linear(setting, x, size, model.has_qkv_bias, HEADS_IN) for size in (queries, keys, keys)
        )
    if model.has_head_norms:
        query = norm(setting, query, model.head_size)
        key = norm(setting, key, model.head_size)
    if model.positions == "rope":
        query, key = rotate(setting, query), rotate(setting, key)
    return query, key, value


def rotate(setting: EagerSetting, heads: Value) -> Value:
    """x·cos + rotate_half(x)·sin with tables of fp32: saves the tables only; the result is fp32.

    Backward: both terms' gradients in fp32 and in the format of x.
    """
    made = value_of("rotated heads", heads.rows, heads.features, FP32)
    temporary_bytes = made.num_bytes + heads.num_bytes
    setting.tape.record("rotate", [(heads, heads.num_bytes)], made, (), temporary_bytes)
    return made


def _flash(
    setting: EagerSetting, query: Value, key: Value, value: Value, output_features: int, is_masked: bool
) -> Value:
    """One kernel that saves queries, keys, values, its output and a row statistic of 4·B·h·S bytes.

    With a mask, as for a window shorter than the sequence, keys and values are written out for every head.
    """
    model = setting.model
    query, key, value = (cast(setting, v, setting.element_bytes, HEADS_IN) for v in (query, key, value))
    if is_masked:
        key, value = _repeat_heads(setting, key), _repeat_heads(setting, value)
    made = value_of("outputs of the attention core", query.rows, output_features, setting.element_bytes)
    statistics = value_of("attention statistics", query.rows, model.num_attention_heads, FP32)
    inputs = [(v, v.num_bytes) for v in (query, key, value)]
    saved = (query.block, key.block, value.block, made.block, statistics.block)
    setting.tape.record("attention", inputs, made, saved)
    return made


def _repeat_heads(setting: EagerSetting, heads: Value) -> Value:
    """Keys or values copied for each group of query heads; the core reads and saves the copies."""
    model = setting.model
    times = model.num_attention_heads // model.num_kv_heads
    if times == 1 or model.latent_attention is not None:
        return heads
    made = value_of("keys and values of every head", heads.rows, heads.features * times, heads.element_bytes)
    setting.tape.record("repeat heads", [(heads, heads.num_bytes)], made)
    return made


def _math(
    setting: EagerSetting, query: Value, key: Value, value: Value, output_features: int, is_masked: bool
) -> Value:
    """Scores as a matrix: B·h·S² elements.

    Saves queries, keys and values for the two products, the probabilities in fp32 for the softmax and, under
    autocast, in e bytes for the product; with dropout its mask and what it lets through.
    """
    model, tape, size = setting.model, setting.tape, setting.element_bytes
    key, value = _repeat_heads(setting, key), _repeat_heads(setting, value)
    query, key, value = (_own_block(setting, cast(setting, v, size, HEADS_IN)) for v in (query, key, value))
    rows = setting.batch_size * model.num_attention_heads * setting.sequence_length
    scores = value_of("attention scores", rows, setting.sequence_length, size)
    inputs = [(query, query.num_bytes), (key, key.num_bytes)]
    tape.record("scores", inputs, scores, (query.block, key.block))
    scaled = value_of("attention scores", rows, setting.sequence_length, size)
    tape.record("scale", [(scores, scores.num_bytes)], scaled)
    if model.caps_scores:
        scaled = cap(setting, scaled, "attention scores")
    wide = cast(setting, scaled, FP32, "attention scores in fp32")
    softmax = value_of("attention probabilities in fp32", rows, setting.sequence_length, FP32)
    tape.record("softmax", [(wide, wide.num_bytes)], softmax, (softmax.block,))
    probabilities = cast(setting, softmax, size, "attention probabilities")
    if model.has_attention_dropout:
        mask = value_of("dropout masks", rows, setting.sequence_length, 1)
        dropped = value_of("attention probabilities", rows, setting.sequence_length, size)
        tape.record("dropout", [(probabilities, dropped.num_bytes)], dropped, (mask.block,))
        probabilities = dropped
    made = value_of("outputs of the attention core", query.rows, output_features, size)
    inputs = [(probabilities, probabilities.num_bytes), (value, value.num_bytes)]
    tape.record("weigh values", inputs, made, (probabilities.block, value.block))
    return made


def _own_block(setting: EagerSetting, heads: Value) -> Value:
    """A view of a part copied, as a batched product needs it."""
    if heads.block.num_bytes == heads.num_bytes:
        return heads
    made = value_of(HEADS_IN, heads.rows, heads.features, heads.element_bytes)
    setting.tape.record("copy", [(heads, heads.num_bytes)], made)
    return made


def _latent_heads(setting: EagerSetting, x: Value, latent: LatentAttention) -> tuple[Value, Value, Value]:
    """Multi-head latent attention: queries and keys are joined from a part without and one with rotation."""
    model, heads = setting.model, setting.model.num_attention_heads
    query_size = heads * (latent.nope_head_size + latent.rope_head_size)
    has_bias = model.has_qkv_bias
    if latent.query_rank is None:
        query = linear(setting, x, query_size, False, HEADS_IN)
    else:
        compressed = norm(setting, linear(setting, x, latent.query_rank, has_bias, "latent queries"))
        query = linear(setting, compressed, query_size, False, HEADS_IN)
    both = linear(setting, x, latent.kv_rank + latent.rope_head_size, has_bias, "latent keys and values")
    compressed, rotating = split(setting, both, (latent.kv_rank, latent.rope_head_size))
    expanded = linear(
        setting, norm(setting, compressed), heads * (latent.nope_head_size + latent.value_head_size), False,
        HEADS_IN,
    )  # fmt: skip
    query_still, query_rotating = split(
        setting, query, (heads * latent.nope_head_size, heads * latent.rope_head_size)
    )
    key_still, value = split(
        setting, expanded, (heads * latent.nope_head_size, heads * latent.value_head_size)
    )
    query = _join(setting, query_still, rotate(setting, query_rotating), query_size)
    key = _join(setting, key_still, rotate(setting, rotating), query_size)
    return query, key, value


def _join(setting: EagerSetting, still: Value, rotated: Value, features: int) -> Value:
    """Both parts of the heads in one block, in the wider format."""
    made = value_of(HEADS_IN, still.rows, features, max(still.element_bytes, rotated.element_bytes))
    setting.tape.record("join", [(still, still.num_bytes), (rotated, rotated.num_bytes)], made)
    return made
