"""Layers and the head of transformers' language models as steps on a tape."""

from __future__ import annotations

from collections.abc import Callable

from perfcast.memory_use.footprint.pytorch.attention import attention
from perfcast.memory_use.footprint.pytorch.experts import experts
from perfcast.memory_use.footprint.pytorch.modules import (
    FP32,
    EagerSetting,
    activate,
    add,
    cap,
    cast,
    dropout,
    linear,
    mlp,
    norm,
    parameter,
    product,
    value_of,
)
from perfcast.memory_use.footprint.pytorch.tape import Value

LOGITS = "logits"
LOG_SOFTMAX = "log-softmax of the logits in fp32"


def layer(setting: EagerSetting, *, has_experts: bool, window: int) -> tuple[Value, Value]:
    """One layer on the setting's tape, by where its norms stand; returns its input and output."""
    x = value_of("residual stream", setting.tokens, setting.model.hidden_size, FP32)
    placement = setting.model.norm_placement
    if placement in ("shared", "parallel"):
        return x, _side_by_side(setting, x, placement == "shared", window)
    middle = _block(setting, x, lambda value: attention(setting, value, window))
    if has_experts:
        return x, _block(setting, middle, lambda value: experts(setting, value))
    return x, _block(setting, middle, lambda value: mlp(setting, value, setting.model.ffn_hidden_size))


def _block(setting: EagerSetting, x: Value, inner: Callable[[Value], Value]) -> Value:
    """Norm, attention or MLP, dropout and the sum with the residual."""
    placement = setting.model.norm_placement
    made = inner(x if placement == "after" else norm(setting, x))
    if placement == "both":
        made = norm(setting, made)
    made = add(setting, x, dropout(setting, made))
    return norm(setting, made) if placement == "after" else made


def _side_by_side(setting: EagerSetting, x: Value, shares_norm: bool, window: int) -> Value:
    """Attention and MLP of the same input, and both sums (GPT-J, GPT-NeoX, Phi)."""
    first = norm(setting, x)
    attended = dropout(setting, attention(setting, first, window))
    second = first if shares_norm else norm(setting, x)
    made = dropout(setting, mlp(setting, second, setting.model.ffn_hidden_size))
    return add(setting, x, add(setting, attended, made))


def embedding(setting: EagerSetting, table: Value) -> Value:
    """Rows of the tables, projected, added up, normalised; returns what enters the first layer.

    A table's gradient is dense: V·H·4 bytes. Rows are copied out of tables, which saves their indices alone.
    """
    model, tape = setting.model, setting.tape
    x = value_of("rows of the embedding", setting.tokens, table.features, FP32)
    tape.record("embedding", [(table, table.num_bytes)], x)
    if model.embedding_size:
        x = linear(setting, x, model.hidden_size, False, "projected rows")
    rows = [model.max_positions] if model.positions == "learned" else []
    for num_rows in (*rows, *([model.num_token_types] if model.num_token_types else [])):
        other = parameter(num_rows, model.hidden_size)
        made = value_of("rows of the embedding", setting.tokens, model.hidden_size, FP32)
        tape.record("embedding", [(x, 0), (other, other.num_bytes)], made)
        x = made
    if model.has_embedding_norm:
        x = norm(setting, x)
    return dropout(setting, x) if model.has_embedding_dropout else x


def head(setting: EagerSetting, table: Value) -> Value:
    """Last norm, head and loss on the setting's tape; returns the loss.

    The loss is computed in fp32: its log-softmax of T·V·4 bytes is saved. Its backward makes the gradient of
    the log-softmax and from it that of the logits, of the same size: three such blocks at once.
    """
    model = setting.model
    x = value_of("residual stream", setting.tokens, model.hidden_size, FP32)
    if model.has_final_norm:
        x = norm(setting, x)
    if model.embedding_size:
        x = linear(setting, x, model.embedding_size, False, "projected rows")
    if model.has_head_transform:
        x = norm(setting, activate(setting, linear(setting, x, model.hidden_size, True, "rows of the head")))
    logits = product(setting, x, table, model.has_head_bias, LOGITS)
    return _loss(setting, cap(setting, logits, "logits") if model.caps_logits else logits)


def _loss(setting: EagerSetting, logits: Value) -> Value:
    wide = cast(setting, logits, FP32, "logits in fp32")
    softmax = value_of(LOG_SOFTMAX, wide.rows, wide.features, FP32)
    setting.tape.record("log-softmax", [(wide, wide.num_bytes)], softmax, (softmax.block,))
    loss = value_of("loss", 1, 1, FP32)
    labels = value_of("labels", setting.tokens, 1, 8)
    setting.tape.record("loss", [(softmax, softmax.num_bytes)], loss, (softmax.block, labels.block))
    return loss
