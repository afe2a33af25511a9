"""Modules of transformers as steps on a tape: what each saves for its backward, and of which size.

Sources: transformers 5, models/*/modeling_*.py and activations.py, for the order of operators; PyTorch,
tools/autograd/derivatives.yaml, for what an operator saves; "Automatic Mixed Precision package" for the
casts. T are tokens, H features of the stream, F of the MLP, e bytes of an element of a product.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from perfcast.core.model.transformer import Transformer
from perfcast.core.training import check_trainable
from perfcast.errors import ModelError
from perfcast.memory_use.footprint.pytorch.tape import AutogradTape, Block, Value

WEIGHT_COPIES = "autocast copies of weights"
INPUT_COPIES = "autocast copies of activations"
FP32 = 4

#: Activations that are one kernel which saves its input.
_ONE_KERNEL = ("gelu", "gelu_pytorch_tanh", "gelu_python_tanh", "silu", "swish")


@dataclass(frozen=True)
class EagerSetting:
    """What a program is asked for.

    Attributes:
        element_bytes: Of the products; 2 under autocast.
        attention: 'flash' or 'math'.
        is_checkpointed: Whether layers run again in the backward. What they then save is let go of when it is
            read, before the gradients made from it are cast; otherwise after that.
    """

    model: Transformer
    batch_size: int
    sequence_length: int
    element_bytes: int
    attention: str
    is_checkpointed: bool = False
    tape: AutogradTape = field(default_factory=AutogradTape)

    def __post_init__(self) -> None:
        check_trainable(self.model)

    @property
    def tokens(self) -> int:
        """Tokens of one forward."""
        return self.batch_size * self.sequence_length

    @property
    def is_mixed(self) -> bool:
        """Whether autocast computes products in fewer bytes than weights have."""
        return self.element_bytes < FP32

    def afresh(self) -> EagerSetting:
        """The same with an empty tape."""
        return replace(self, tape=AutogradTape())

    def before_cast(self, wide_bytes: int, made_bytes: int) -> int:
        """Bytes of a gradient in fp32 beside its cast of ``made_bytes``, where the format differs."""
        if wide_bytes == made_bytes:
            return 0
        return wide_bytes - made_bytes if self.is_checkpointed else wide_bytes


def value_of(name: str, rows: int, features: int, element_bytes: int) -> Value:
    """A tensor with a block of its own."""
    num_bytes = rows * features * element_bytes
    return Value(rows, features, element_bytes, Block(name, num_bytes, f"{rows}·{features}·{element_bytes}"))


def view(value: Value, features: int) -> Value:
    """Some features of a value, in the same block."""
    return Value(value.rows, features, value.element_bytes, value.block)


def parameter(rows: int, columns: int) -> Value:
    """An fp32 weight; its block is counted with the weights."""
    num_bytes = rows * columns * FP32
    return Value(rows, columns, FP32, Block("weights", num_bytes), is_parameter=True)


def cast(setting: EagerSetting, value: Value, element_bytes: int, name: str) -> Value:
    """A copy in another format, where the format differs; nothing is saved for it."""
    if value.element_bytes == element_bytes:
        return value
    made = value_of(name, value.rows, value.features, element_bytes)
    setting.tape.record("cast", [(value, value.num_bytes)], made)
    return made


def linear(setting: EagerSetting, x: Value, outputs: int, has_bias: bool, name: str) -> Value:
    """y = x·W: saves x and, for the gradient of x, W: T·K·e + K·N·e bytes.

    In fp32, W is the weight itself. Under autocast both are copies: that of x belongs to this product alone,
    that of W is made once per forward (the bias's copy is not saved).
    """
    return product(setting, x, parameter(x.features, outputs), has_bias, name)


def product(setting: EagerSetting, x: Value, weight: Value, has_bias: bool, name: str) -> Value:
    """A product with a given weight; see ``linear``."""
    x = cast(setting, x, setting.element_bytes, INPUT_COPIES)
    copy = cast(setting, weight, setting.element_bytes, WEIGHT_COPIES)
    made = value_of(name, x.rows, weight.features, setting.element_bytes)
    inputs = [(x, x.num_bytes), (copy, copy.num_bytes)]
    saved = [x.block] if copy is weight else [x.block, copy.block]
    setting.tape.record("product", inputs, made, saved)
    if has_bias:
        bias = parameter(1, weight.features)
        setting.tape.record("bias", [(made, 0), (bias, bias.num_bytes)], made)
    return made


def norm(setting: EagerSetting, x: Value, features: int = 0) -> Value:
    """The model's norm, over ``features`` (0: all); its output is fp32 as its weight is.

    A layer norm saves its input and two fp32 numbers per row, an RMS norm written out in Python its input
    in fp32 (squared, and scaled), the scaled rows (multiplied by the weight) and one number per row:
    T·H·4 and T·H·4. LLaMA's casts the scaled rows back before the weight, Gemma's the product after it.
    """
    model, tape, came_in = setting.model, setting.tape, x.element_bytes
    rows = x.rows * x.features // (features or x.features)
    weight = parameter(1, features or x.features)
    x = cast(setting, x, FP32, "norm inputs in fp32")
    statistics = value_of("norm statistics", rows, 1, FP32)
    if model.norm == "layernorm":
        made = value_of("norm outputs", x.rows, x.features, FP32)
        bias = parameter(1, x.features)
        inputs = [(x, x.num_bytes), (weight, weight.num_bytes), (bias, bias.num_bytes)]
        means = value_of("norm statistics", rows, 1, FP32)
        tape.record("layer norm", inputs, made, (x.block, means.block, statistics.block))
        return made
    tape.record("mean square", [(x, x.num_bytes)], statistics, (x.block,), 3 * x.num_bytes)
    scaled = value_of("normalised rows", x.rows, x.features, FP32)
    inputs = [(x, x.num_bytes), (statistics, statistics.num_bytes)]
    tape.record("scale rows", inputs, scaled, (x.block, statistics.block), x.num_bytes)
    if not model.scales_norm_in_fp32:
        scaled = cast(setting, scaled, came_in, "normalised rows")
    made = value_of("norm outputs", x.rows, x.features, FP32)
    inputs = [(scaled, scaled.num_bytes), (weight, weight.num_bytes)]
    tape.record("weigh rows", inputs, made, (scaled.block,), made.num_bytes)
    return cast(setting, made, came_in, "norm outputs") if model.scales_norm_in_fp32 else made


def add(setting: EagerSetting, residual: Value, x: Value) -> Value:
    """The sum in the wider format; saves nothing, and its backward hands its gradient to both."""
    made = value_of("residual stream", x.rows, x.features, max(residual.element_bytes, x.element_bytes))
    inputs = [(v, 0 if v.element_bytes == made.element_bytes else v.num_bytes) for v in (residual, x)]
    setting.tape.record("sum", inputs, made)
    return made


def dropout(setting: EagerSetting, x: Value) -> Value:
    """Saves a mask of one byte an element."""
    if not setting.model.has_dropout:
        return x
    made = value_of("dropped rows", x.rows, x.features, x.element_bytes)
    mask = value_of("dropout masks", x.rows, x.features, 1)
    setting.tape.record("dropout", [(x, x.num_bytes)], made, (mask.block,))
    return made


def activate(setting: EagerSetting, x: Value) -> Value:
    """The MLP's function of x, T·F elements.

    One kernel saves its input (ReLU: its output). 'gelu_new' is written out: ½·x·(1 + tanh(c·(x + a·x³)))
    saves x for the cube, the tanh, one plus it, and ½·x; under autocast the cube and what follows are fp32,
    so that it keeps T·F·(4 + 4 + 4 + 2) bytes.
    """
    name = setting.model.activation
    tape, size, features = setting.tape, x.num_bytes, x.features
    if name in _ONE_KERNEL or name == "relu":
        made = value_of("activations of the MLP", x.rows, features, x.element_bytes)
        tape.record(name, [(x, size)], made, (made.block if name == "relu" else x.block,))
        return made
    if name != "gelu_new":
        known = ", ".join((*_ONE_KERNEL, "relu", "gelu_new"))
        raise ModelError(
            f"the closed form does not know what the activation {name!r} saves; it knows {known}"
        )
    half = value_of("halves of gelu_new", x.rows, features, x.element_bytes)
    tape.record("half", [(x, size)], half)
    wide = cast(setting, x, FP32, "inputs of gelu_new in fp32")
    full = x.rows * features * FP32
    cube = value_of("cubes of gelu_new", x.rows, features, FP32)
    tape.record("cube", [(wide, full)], cube, (wide.block,), 2 * full)
    inner = value_of("arguments of tanh", x.rows, features, FP32)
    tape.record("argument", [(x, size if setting.is_mixed else 0), (cube, 0)], inner)
    tanh = value_of("tanh of gelu_new", x.rows, features, FP32)
    tape.record("tanh", [(inner, full)], tanh, (tanh.block,))
    plus = value_of("one plus tanh", x.rows, features, FP32)
    tape.record("one plus", [(tanh, 0)], plus)
    made = value_of("activations of the MLP", x.rows, features, FP32)
    inputs = [(half, half.num_bytes), (plus, full)]
    temporary_bytes = setting.before_cast(full, half.num_bytes)
    tape.record("product of halves", inputs, made, (half.block, plus.block), temporary_bytes)
    return made


def multiply(setting: EagerSetting, a: Value, b: Value, name: str) -> Value:
    """An elementwise product saves both factors."""
    made = value_of(name, a.rows, a.features, max(a.element_bytes, b.element_bytes))
    inputs = [(a, a.num_bytes), (b, b.num_bytes)]
    setting.tape.record("multiply", inputs, made, (a.block, b.block))
    return made


def mlp(setting: EagerSetting, x: Value, ffn_hidden_size: int) -> Value:
    """Two or, gated, three products with the activation between: saves T·F·e two to four times."""
    model = setting.model
    has_bias = model.has_linear_bias if model.has_mlp_bias is None else model.has_mlp_bias
    if not model.is_gated:
        inner = activate(setting, linear(setting, x, ffn_hidden_size, has_bias, "inputs of the activation"))
    elif model.has_fused_gate:
        both = linear(setting, x, 2 * ffn_hidden_size, has_bias, "gate and up of the MLP")
        gate, up = split(setting, both, (ffn_hidden_size, ffn_hidden_size))
        inner = multiply(setting, up, activate(setting, gate), "products of the MLP")
    else:
        gate = linear(setting, x, ffn_hidden_size, has_bias, "gates of the MLP")
        gate = activate(setting, gate)
        up = linear(setting, x, ffn_hidden_size, has_bias, "ups of the MLP")
        inner = multiply(setting, gate, up, "products of the MLP")
    return linear(setting, inner, model.hidden_size, has_bias, "outputs of the MLP")


def split(setting: EagerSetting, value: Value, features: tuple[int, ...]) -> tuple[Value, ...]:
    """Views of the parts; the backward writes their gradients into one block of the whole."""
    parts = tuple(view(value, size) for size in features)
    setting.tape.record("split", [(value, value.num_bytes)], parts)
    return parts


def cap(setting: EagerSetting, x: Value, name: str) -> Value:
    """cap·tanh(x / cap): saves the tanh alone."""
    tape, size = setting.tape, x.num_bytes
    scaled, tanh, made = (
        value_of(label, x.rows, x.features, x.element_bytes)
        for label in (f"scaled {name}", f"tanh of the {name}", f"capped {name}")
    )
    tape.record("scale", [(x, size)], scaled)
    tape.record("tanh", [(scaled, size)], tanh, (tanh.block,))
    tape.record("scale", [(tanh, size)], made)
    return made
