"""The memory of a plain PyTorch program on one device, in closed form.

The program is transformers' own module, run eagerly: fp32 weights, autocast for bf16 and fp16, a
``torch.optim`` optimizer. Layers are alike, so one layer's tape (``tape``) says what each of them
keeps, and what a backward holds beside the others. These instants can be the peak:

    end of the forward          all layers' saved blocks, the logits, their fp32 copy, their log-softmax
    backward of the head        the same blocks; the log-softmax and two gradients of its size
    backward of the last layer  all other layers' blocks and what the layer's backward works with
    backward of the first layer all other layers' gradients and what the layer's backward works with
    backward of the embedding   all gradients, the dense gradient of the embedding among them
    optimizer                   weights, gradients, states and what the update works with
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.forecast.footprint import PeakCandidate, Term
from perfcast.core.model.transformer import Transformer
from perfcast.core.tensor import Category
from perfcast.errors import UnknownNameError
from perfcast.memory_use.footprint.pytorch.layers import embedding, head, layer
from perfcast.memory_use.footprint.pytorch.modules import (
    FP32,
    WEIGHT_COPIES,
    EagerSetting,
    parameter,
    value_of,
)
from perfcast.memory_use.footprint.pytorch.optimizer import optimizer_terms, state_term
from perfcast.memory_use.footprint.pytorch.tape import AutogradTape, Block, Instant, Value, run_backward

_ELEMENT_BYTES = {name: DTYPES_BY_LABEL[name].bytes_of(1) for name in ("fp32", "tf32", "bf16", "fp16")}
_AUTOGRAD = "PyTorch: derivatives.yaml; transformers: modeling_*.py"


def estimate_eager(
    model: Transformer,
    *,
    batch_size: int,
    sequence_length: int,
    dtype: str = "bf16",
    optimizer: str = "adamw",
    optimizer_implementation: str = "foreach",
    recompute: str = "none",
    attention: str = "flash",
) -> tuple[PeakCandidate, ...]:
    """The instants of one training step that can be its peak.

    Args:
        dtype: 'fp32', 'tf32', or 'bf16' and 'fp16' by autocast.
        optimizer: 'adamw', 'adam', 'momentum', 'sgd' or 'none'.
        optimizer_implementation: 'foreach', 'fused' or 'loop'.
        recompute: 'none' or 'full'.
        attention: 'flash', or 'math' (the matrix of scores is written out).

    Raises:
        UnknownNameError: Of any of the words above.
        ModelError: An activation of which it is not known what it saves.
    """
    for kind, word, known in (
        ("dtype", dtype, tuple(_ELEMENT_BYTES)),
        ("recompute", recompute, ("none", "full")), ("attention", attention, ("flash", "math")),
    ):  # fmt: skip
        if word not in known:
            raise UnknownNameError(kind, word, known, f"Known: {', '.join(known)}.")
    is_checkpointed = recompute == "full"
    setting = EagerSetting(
        model, batch_size, sequence_length, _ELEMENT_BYTES[dtype], attention, is_checkpointed
    )
    program = _Program(setting)
    base = (
        _weights(program),
        *state_term(optimizer, program.num_parameters),
        *_inputs(setting),
    )
    candidates = _forward_and_backward(program, base)
    if optimizer == "none":
        return candidates
    gradients = _gradients("of all parameters", program.parameter_bytes)
    update = optimizer_terms(optimizer, optimizer_implementation, program.num_parameters, program.largest)
    return (*candidates, PeakCandidate("optimizer", (*base, gradients, *update)))


def count_eager_parameters(model: Transformer) -> int:
    """Parameters of transformers' module; tied ones once."""
    return _Program(EagerSetting(model, 1, 1, FP32, "flash")).num_parameters


@dataclass(frozen=True)
class _Layers:
    """Equal layers: how many, what one saves and leaves, and the instant of its backward that holds most."""

    count: int
    tape: AutogradTape
    entry: Block
    instant: Instant


class _Program:
    """Tapes of the embedding, of each kind of layer in order, and of the head."""

    def __init__(self, setting: EagerSetting) -> None:
        model = self.model = setting.model
        self.setting = setting
        table = Value(
            model.vocab_size, model.embedding_size or model.hidden_size, FP32,
            Block("weights", 0), is_parameter=not model.ties_embeddings,
        )  # fmt: skip
        self.table_bytes = table.num_bytes
        first = setting.afresh()
        waiting = {table: Block("gradient of the head", table.num_bytes)} if model.ties_embeddings else {}
        self.embedding = first.tape
        self.embedding_instant = run_backward(first.tape, embedding(first, table), waiting)
        self.layers = tuple(_layers(setting))
        last = setting.afresh()
        head_table = parameter(table.features, model.vocab_size)
        loss = head(last, head_table)
        self.head = last.tape
        self.head_instant = run_backward(last.tape, loss)

    @property
    def layer_bytes(self) -> int:
        """Bytes of the layers' weights in fp32."""
        return sum(kind.count * kind.tape.gradient_bytes for kind in self.layers)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all weights in fp32; a tied table counts with the head."""
        return self.layer_bytes + self.embedding.gradient_bytes + self.head.gradient_bytes

    @property
    def num_parameters(self) -> int:
        """Distinct parameters."""
        return self.parameter_bytes // FP32

    @property
    def largest(self) -> int:
        """Elements of the largest parameter."""
        tapes = (self.embedding, self.head, *(kind.tape for kind in self.layers))
        return max(tape.largest_gradient_bytes for tape in tapes) // FP32


def _layers(setting: EagerSetting) -> Iterable[_Layers]:
    """The kinds of layers in order: dense before experts, windowed before others."""
    model = setting.model
    num_dense = model.num_layers - model.num_expert_layers
    is_windowed = 0 < model.sliding_window < setting.sequence_length
    num_windowed = model.num_window_layers if is_windowed else 0
    for has_experts, count in ((False, num_dense), (True, model.num_expert_layers)):
        windowed = min(num_windowed, count)
        num_windowed -= windowed
        for window, number in ((model.sliding_window, windowed), (0, count - windowed)):
            if number:
                fresh = setting.afresh()
                entry, output = layer(fresh, has_experts=has_experts, window=window)
                yield _Layers(number, fresh.tape, entry.block, run_backward(fresh.tape, output))


def _forward_and_backward(program: _Program, base: tuple[Term, ...]) -> tuple[PeakCandidate, ...]:
    """Instants of forward and backward; see the top of the file."""
    all_masks = (*base, *_masks(program.setting, is_last=True))
    return (
        _end_of_forward(program, all_masks),
        _head_backward(program, all_masks),
        _layer_backward(program, all_masks, program.layers[-1], is_last=True),
        _layer_backward(
            program, (*base, *_masks(program.setting, is_last=False)), program.layers[0], is_last=False
        ),
        _embedding_backward(program, base),
    )


def _end_of_forward(program: _Program, base: tuple[Term, ...]) -> PeakCandidate:
    """Logits live until the loss is there: T·V·e, and in fp32 for the loss; autocast still has its copies."""
    setting, model = program.setting, program.model
    logits = [value_of("logits", setting.tokens, model.vocab_size, setting.element_bytes).block]
    if setting.is_mixed:
        logits.append(value_of("logits in fp32", setting.tokens, model.vocab_size, FP32).block)
    hidden = value_of("last hidden states", setting.tokens, model.hidden_size, FP32).block
    copies: list[Block] = []
    if program.setting.is_checkpointed:
        for kind in program.layers:
            copies += [b for b in kind.tape.saved if b.name == WEIGHT_COPIES] * kind.count
    saved = (*_saved(program), *program.embedding.saved, *program.head.saved, *copies)
    temporary = _terms((*logits, hidden), Category.TEMPORARY)
    return PeakCandidate("end of the forward", (*base, *_terms(saved, Category.ACTIVATION), *temporary))


def _head_backward(program: _Program, base: tuple[Term, ...]) -> PeakCandidate:
    """Gradients of the log-softmax and of the logits, T·V·4 bytes each, beside the log-softmax."""
    instant = program.head_instant
    saved = (*_saved(program), *program.embedding.saved, *instant.saved)
    held = _terms(saved, Category.ACTIVATION)
    is_loss = instant.step == "log-softmax"
    gradients = _stream("gradients of the logits in fp32" if is_loss else "gradients of activations", instant)
    return PeakCandidate("backward of the head", (*base, *held, *gradients, *_left(instant)))


def _layer_backward(
    program: _Program, base: tuple[Term, ...], kind: _Layers, *, is_last: bool
) -> PeakCandidate:
    """One layer's backward, when all others wait (the last layer's) or are done (the first's)."""
    instant = kind.instant
    waiting = _saved(program, without=kind) if is_last else ()
    saved = [*waiting, *program.embedding.saved, *instant.saved]
    if program.setting.is_checkpointed and kind.entry not in instant.saved:
        saved.append(kind.entry)
    done = program.head.gradient_bytes
    if not is_last:
        done += program.layer_bytes - kind.tape.gradient_bytes
    name = "backward of the last layer" if is_last else "backward of the first layer"
    gradients = _gradients("of what is done", done + instant.gradient_bytes)
    stream = _stream("gradients of activations", instant)
    return PeakCandidate(name, (*base, *_terms(saved, Category.ACTIVATION), gradients, *stream))


def _embedding_backward(program: _Program, base: tuple[Term, ...]) -> PeakCandidate:
    """The table's gradient is dense, V·H·4; a tied table's meets the head's, and their sum is a third."""
    instant, model = program.embedding_instant, program.model
    done = program.layer_bytes + program.head.gradient_bytes + instant.gradient_bytes
    stream = instant.stream_bytes
    if model.ties_embeddings:
        stream -= program.table_bytes  # the head's gradient is counted with those that are done
    name = "gradients of the embedding and its rows"
    terms = (
        _gradients("of what is done", done),
        Term(name, Category.TEMPORARY, stream, f"{stream} bytes at '{instant.step}'", _AUTOGRAD),
    )
    return PeakCandidate(
        "backward of the embedding", (*base, *_terms(instant.saved, Category.ACTIVATION), *terms)
    )


# ---- terms -------------------------------------------------------------------------------------


def _saved(program: _Program, without: _Layers | None = None) -> tuple[Block, ...]:
    """Blocks of all layers, or of all but one; of a checkpointed layer, its input alone."""
    blocks: list[Block] = []
    for kind in program.layers:
        count = kind.count - (kind is without)
        blocks += ((kind.entry,) if program.setting.is_checkpointed else kind.tape.saved) * count
    return tuple(blocks)


def _terms(blocks: Iterable[Block], category: str) -> tuple[Term, ...]:
    """Blocks of one name as one term; its formula counts the equal ones."""
    by_name: dict[str, dict[str, tuple[int, int]]] = {}
    for block in blocks:
        formulas = by_name.setdefault(block.name, {})
        count, total = formulas.get(block.formula, (0, 0))
        formulas[block.formula] = (count + 1, total + block.num_bytes)
    return tuple(
        Term(
            name, category, sum(total for _, total in formulas.values()),
            " + ".join(f"{count} · ({formula})" for formula, (count, _) in formulas.items()), _AUTOGRAD,
        )
        for name, formulas in by_name.items()
    )  # fmt: skip


def _weights(program: _Program) -> Term:
    count = program.num_parameters
    return Term(
        "weights", Category.PARAMETER, program.parameter_bytes, f"{count}·4", "autocast: fp32 weights"
    )


def _inputs(setting: EagerSetting) -> tuple[Term, ...]:
    """Tokens and labels of 8 bytes, and the tables of rotation."""
    model, length = setting.model, setting.sequence_length
    tokens = Term(
        "tokens and labels", Category.INPUT, 16 * setting.tokens, f"2 · ({setting.tokens}·8)", "int64"
    )
    if model.positions != "rope":
        return (tokens,)
    size = model.rope_size or model.head_size
    table = f"2 · ({length}·{size}·4)"
    return tokens, Term("tables of rotation", Category.ACTIVATION, 8 * length * size, table, _AUTOGRAD)


def _masks(setting: EagerSetting, *, is_last: bool) -> tuple[Term, ...]:
    """Masks of attention that live into the backward, of all kinds of layers, or of the first layer's.

    A fused kernel has none but for a window shorter than the sequence: S·S·1 for all sequences. Scores have
    one of B·S·S·4 bytes for each kind of layer; a checkpointed layer keeps it for its second forward.
    """
    model, length = setting.model, setting.sequence_length
    if setting.attention == "flash" and model.has_fused_attention:
        count, rows = int(0 < model.sliding_window < length), length
    else:
        kinds = (model.num_window_layers > 0) + (model.num_window_layers < model.num_layers)
        count = (kinds if is_last else 1) if setting.is_checkpointed and model.is_causal else 0
        rows = 4 * setting.batch_size * length
    size, formula = count * rows * length, f"{count} · ({rows}·{length})"
    return (Term("masks of attention", Category.ACTIVATION, size, formula, _AUTOGRAD),) if count else ()


def _gradients(which: str, num_bytes: int) -> Term:
    return Term("gradients", Category.GRADIENT, num_bytes, f"{num_bytes // FP32}·4, {which}", _AUTOGRAD)


def _left(instant: Instant) -> tuple[Term, ...]:
    return (_gradients("of what is done", instant.gradient_bytes),) if instant.gradient_bytes else ()


def _stream(name: str, instant: Instant) -> tuple[Term, ...]:
    formula = f"{instant.stream_bytes} bytes at '{instant.step}'"
    return (Term(name, Category.TEMPORARY, instant.stream_bytes, formula, _AUTOGRAD),)
