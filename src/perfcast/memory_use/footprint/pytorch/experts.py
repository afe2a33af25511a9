"""A mixture of experts in transformers' grouped form as steps on a tape."""

from __future__ import annotations

from perfcast.core.model.transformer import Experts
from perfcast.errors import ModelError
from perfcast.memory_use.footprint.pytorch.modules import (
    FP32,
    INPUT_COPIES,
    WEIGHT_COPIES,
    EagerSetting,
    activate,
    add,
    cast,
    linear,
    mlp,
    multiply,
    split,
    value_of,
)
from perfcast.memory_use.footprint.pytorch.tape import Block, Value


def experts(setting: EagerSetting, x: Value) -> Value:
    """Router, the experts' two grouped products over T·k rows, the weighted sum, and the shared experts."""
    described = setting.model.experts
    if described is None:
        raise ModelError("a layer of experts in a model without experts")
    if described.has_shared_gate:
        shared = mlp(setting, x, described.shared_ffn_hidden_size)
        made = _grouped(setting, x, _route(setting, x, described), described)
        gate = linear(setting, x, 1, False, "gates of the shared experts")
        opened = value_of("gates of the shared experts", gate.rows, 1, gate.element_bytes)
        setting.tape.record("sigmoid", [(gate, gate.num_bytes)], opened, (opened.block,))
        return add(setting, made, multiply(setting, shared, opened, "outputs of the shared experts"))
    made = _grouped(setting, x, _route(setting, x, described), described)
    if described.shared_ffn_hidden_size:
        made = add(setting, made, mlp(setting, x, described.shared_ffn_hidden_size))
    return made


def _route(setting: EagerSetting, x: Value, described: Experts) -> Value:
    """One product and the probabilities of the experts, of which k are picked: saves T·E·4 bytes of them."""
    logits = linear(setting, x, described.num_experts, False, "logits of the router")
    wide = cast(setting, logits, FP32, "logits of the router")
    chosen = value_of("probabilities of the router", x.rows, described.num_experts, FP32)
    setting.tape.record("probabilities", [(wide, wide.num_bytes)], chosen, (chosen.block,))
    picked = value_of("weights of the experts", x.rows, described.experts_per_token, FP32)
    setting.tape.record("pick", [(chosen, chosen.num_bytes)], picked, (picked.block,))
    return picked


def _grouped(setting: EagerSetting, x: Value, weights: Value, described: Experts) -> Value:
    """T·k rows sorted by expert, gate and up as one product, the activation, the other product, the sum.

    Saves the sorted rows and the products' operands in e bytes, the outputs for the gradient of their
    weights, and the experts' weights or their copies.
    """
    model, tape, size = setting.model, setting.tape, setting.element_bytes
    rows, ffn = x.rows * described.experts_per_token, described.ffn_hidden_size
    sorted_rows = value_of("rows of the experts", rows, x.features, x.element_bytes)
    tape.record("sort rows", [(x, x.num_bytes)], sorted_rows, (), x.num_bytes)
    both = _product(setting, sorted_rows, described.num_experts, 2 * ffn if model.is_gated else ffn)
    if model.is_gated:
        gate, up = split(setting, both, (ffn, ffn))
        inner = multiply(setting, activate(setting, gate), up, "products of the experts")
    else:
        inner = activate(setting, both)
    inner = cast(setting, inner, FP32, "products of the experts in fp32")
    out = _product(setting, inner, described.num_experts, model.hidden_size)
    weighted = value_of("weighted outputs of the experts", rows, model.hidden_size, FP32)
    inputs = [(out, out.num_bytes), (weights, weights.num_bytes)]
    temporary_bytes = weighted.num_bytes + setting.before_cast(weighted.num_bytes, out.num_bytes)
    tape.record("weigh", inputs, weighted, (out.block,), temporary_bytes)
    back = value_of("weighted outputs of the experts", rows, model.hidden_size, FP32)
    tape.record("sort back", [(weighted, weighted.num_bytes)], back, (), weighted.num_bytes)
    made = value_of("sums of the experts", x.rows, model.hidden_size, FP32)
    tape.record("sum of experts", [(back, back.num_bytes)], made)
    return cast(setting, made, size, "sums of the experts") if x.element_bytes == size else made


def _product(setting: EagerSetting, x: Value, num_experts: int, outputs: int) -> Value:
    """A grouped product: E matrices in one weight, each for the rows of its expert."""
    x = cast(setting, x, setting.element_bytes, INPUT_COPIES)
    elements = num_experts * x.features
    weight = Value(elements, outputs, FP32, Block("weights", elements * outputs * FP32), is_parameter=True)
    copy = cast(setting, weight, setting.element_bytes, WEIGHT_COPIES)
    made = value_of("outputs of the experts", x.rows, outputs, setting.element_bytes)
    inputs = [(x, x.num_bytes), (copy, copy.num_bytes)]
    saved = [x.block] if copy is weight else [x.block, copy.block]
    setting.tape.record("grouped product", inputs, made, saved)
    return made
