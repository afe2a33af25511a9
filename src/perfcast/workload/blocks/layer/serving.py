"""What one rank runs of a layer, of the embedding and of the head while a model answers."""

from __future__ import annotations

import math

from perfcast.core.dtype import DType
from perfcast.core.model.layer import LayerPart, layer_parts
from perfcast.core.operation import OperationKind
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Calls, Stream
from perfcast.workload.blocks.attention.linear import linear_attention
from perfcast.workload.blocks.attention.serving import latent_attention, plain_attention
from perfcast.workload.blocks.experts.serving import mixture
from perfcast.workload.blocks.kernels import elementwise, lookup, rows_kernel, softmax, tensor
from perfcast.workload.blocks.serving.kernels import fused_norm
from perfcast.workload.blocks.serving.parts import add_norm, linear_outside, mlp, reduce_over_tensor
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.tape import Tape


def layer(setting: Serving, *, has_experts: bool, has_linear: bool = False, window: int) -> Calls:
    """The parts of the layer in the model's order; the sums with the residual are part of the norms."""
    tape = Tape()
    for part in layer_parts(setting.model):
        match part:
            case LayerPart.ATTENTION:
                tape.add(attention(setting, has_linear=has_linear, window=window))
                reduce_over_tensor(tape, setting, "attention.output")
            case LayerPart.MLP if has_experts:
                tape.add(mixture(setting))
            case LayerPart.MLP:
                mlp(tape, setting, setting.model.ffn_hidden_size // setting.plan.tensor_parallel)
                reduce_over_tensor(tape, setting, "mlp.down")
            case _ if part.is_norm:
                add_norm(tape, setting, part.value, quantises=True)
    return tape.calls()


def attention(setting: Serving, *, has_linear: bool, window: int) -> Calls:
    """Attention of a layer, or what stands in its place, without the sum over ranks."""
    if has_linear:
        return linear_attention(setting)
    attend = latent_attention if setting.model.latent_attention else plain_attention
    return attend(setting, window)


def embedding(setting: Serving) -> Calls:
    """Each rank looks up its part of the vocabulary; the others' tokens come by the all-reduce."""
    tape, model, element = Tape(), setting.model, setting.precision.element
    rows = math.ceil(model.vocab_size / setting.plan.tensor_parallel)
    size = model.embedding_size or model.hidden_size
    tape.run(lookup(setting.tokens, size, rows, element), "embedding")
    reduce_over_tensor(tape, setting, "embedding")
    if model.embedding_size:
        linear_outside(tape, setting, setting.tokens, model.hidden_size, size, "embedding.projection")
    if model.positions == "learned":
        x = tensor(element, setting.tokens, model.hidden_size)
        tape.run(
            lookup(setting.tokens, model.hidden_size, model.max_positions, element), "embedding.positions"
        )
        tape.run(elementwise("add", (x, x), (x,)), "embedding.positions")
    if model.has_embedding_norm:
        for operation in fused_norm(model.norm, setting.tokens, model.hidden_size, element, adds=False):
            tape.run(operation, "embedding.norm")
    return tape.calls()


def head(setting: Serving) -> Calls:
    """Last norm, logits of the last token of each sequence, and the draw of the next."""
    tape, model, element = Tape(), setting.model, setting.precision.element
    rows, size = setting.batch_size, model.embedding_size or model.hidden_size
    if model.has_final_norm:
        add_norm(tape, setting, "head.norm")
    if not setting.is_decode:
        picked = tensor(element, rows, model.hidden_size)
        tape.run(
            rows_kernel(OperationKind.COPY, "index_select", (picked,), (picked,), flops_per_element=0),
            "head.last_token",
        )
    if model.embedding_size:
        linear_outside(tape, setting, rows, size, model.hidden_size, "head.projection")
    columns = math.ceil(model.vocab_size / setting.plan.tensor_parallel)
    linear_outside(tape, setting, rows, columns, size, "head.logits")
    tape.collective(
        "all_gather", element.bytes_of(rows * columns * setting.plan.tensor_parallel),
        group_of(setting.plan, "tensor"), Stream.TENSOR, "head.logits",
        world_size=setting.plan.world_size, dtype=element,
    )  # fmt: skip
    _sample(tape, setting)
    return tape.calls()


def _sample(tape: Tape, setting: Serving) -> None:
    """Logits in fp32, their softmax, and one word of each row."""
    rows, words = setting.batch_size, setting.model.vocab_size
    narrow, wide = tensor(setting.precision.element, rows, words), tensor(DType.FP32, rows, words)
    chosen = tensor(DType.INT64, rows, 1)
    tape.run(
        rows_kernel(OperationKind.COPY, "_to_copy", (narrow,), (wide,), flops_per_element=0), "head.sample"
    )
    tape.run(softmax(rows, words, DType.FP32, DType.FP32), "head.sample")
    tape.run(rows_kernel(OperationKind.REDUCTION, "argmax", (wide,), (chosen,), row=words), "head.sample")
