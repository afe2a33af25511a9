"""A gated delta rule in attention's place, of one rank while a model answers.

A state S of keys × values for each value head takes attention's place (Yang et al.: Gated Delta Networks,
arXiv 2412.06464)::

    S ← a · S · (1 - b · k · kᵀ) + b · v · kᵀ        o = S · q

Queries, keys and values, with the output's gate, come out of one product, decay a and step b out of a small
one; a short convolution runs over the former. A prompt goes through the rule in chunks, a new token updates
the state of its sequence; the output is normalised by heads and gated (vLLM: models/qwen3_next.py,
Qwen3NextGatedDeltaNet; SGLang: layers/attention/linear/gdn_backend.py; TensorRT-LLM:
_torch/models/modeling_qwen3_next.py).
"""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.model.transformer import LinearAttention
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.work import Calls
from perfcast.errors import ModelError, PlanError
from perfcast.workload.blocks.kernels import elementwise, tensor
from perfcast.workload.blocks.serving.parts import linear, linear_outside
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.tape import Tape

#: Multiply-adds of a token with each number of a head's state: what the key reads, the update, the query.
_PASSES_OVER_STATE = 3


def linear_attention(setting: Serving) -> Calls:
    """From the normed input to what the residual takes, before the sum over ranks."""
    rule = setting.model.linear_attention
    if rule is None:
        raise ModelError("linear attention in a model without it")
    if setting.plan.context_parallel > 1:
        raise PlanError(
            f"cp={setting.plan.context_parallel}: a state that goes from token to token is not cut along the "
            "sequence; take cp=1"
        )
    tape, element, tokens = Tape(), setting.precision.element, setting.tokens
    heads = rule.num_value_heads // setting.plan.tensor_parallel
    values, hidden = heads * rule.value_head_size, setting.model.hidden_size
    channels = _channels(rule, setting.plan.tensor_parallel)
    linear(tape, setting, tokens, channels + values, hidden, "attention.qkv")
    linear_outside(tape, setting, tokens, 2 * heads, hidden, "attention.decay")
    tape.run(_state_kernel(setting, rule, "causal_conv1d"), "attention.convolution")
    if not setting.is_decode:
        small = tensor(DType.FP32, tokens, 2 * heads)
        tape.run(elementwise("sigmoid", (small,), (small,), flops_per_element=6), "attention.decay")
    tape.run(_state_kernel(setting, rule, "gated_delta_rule"), "attention.state")
    x = tensor(element, tokens, values)
    tape.run(elementwise("rms_norm", (x, x), (x,), flops_per_element=8), "attention.head_norms")
    linear(tape, setting, tokens, hidden, values, "attention.output")
    return tape.calls()


def _channels(rule: LinearAttention, tensor_parallel: int) -> int:
    """Elements of a token's queries, keys and values on a rank."""
    keys = rule.num_key_heads // tensor_parallel * rule.key_head_size
    return 2 * keys + rule.num_value_heads // tensor_parallel * rule.value_head_size


def _state_kernel(setting: Serving, rule: LinearAttention, name: str) -> Operation:
    """The short convolution, or the rule itself; new tokens each read and write what their sequence keeps."""
    degree, element = setting.plan.tensor_parallel, setting.precision.element
    batch, length = (setting.tokens, 1) if setting.is_decode else (setting.batch_size, setting.num_queries)
    heads, channels = rule.num_value_heads // degree, _channels(rule, degree)
    values, state = heads * rule.value_head_size, heads * rule.value_head_size * rule.key_head_size
    tokens = batch * length
    if name == "causal_conv1d":
        out, flops = channels, 2 * tokens * channels * rule.conv_size
        kept = element.bytes_of(batch * channels * (rule.conv_size - 1))
    else:
        out, flops = values, 2 * _PASSES_OVER_STATE * tokens * state
        kept = DType.FP32.bytes_of(batch * state)
    read, written = tensor(element, tokens, channels), tensor(element, tokens, out)
    sizes: dict[str, AttributeValue] = {
        "batch": batch, "sequence_length": length, "model_size": setting.model.hidden_size,
        "conv_size": rule.conv_size, "num_key_heads": rule.num_key_heads // degree,
        "key_head_size": rule.key_head_size, "num_value_heads": heads,
        "value_head_size": rule.value_head_size, "state_size": rule.key_head_size,
        "num_groups": rule.num_key_heads // degree, "is_decode": setting.is_decode,
    }  # fmt: skip
    moved = read.num_bytes + written.num_bytes + (2 if setting.is_decode else 1) * kept
    return Operation(
        OperationKind.LINEAR_ATTENTION, name, (read,), (written,), element, flops, flops, moved, 0,
        tuple(sorted(sizes.items())),
    )  # fmt: skip
