"""What a rank keeps of the tokens that it has seen: keys and values, or states in their place.

Full attention keeps keys and values of every token (Pope et al.: Efficiently Scaling Transformer Inference,
MLSys 2023, section 3.3), latent attention a compressed vector (DeepSeek-V2, section 2.1.2), layers with a
window no more tokens than it has. Linear attention keeps a state of fixed size for each sequence, and the
last tokens that its short convolution sees (vLLM: model_executor/layers/mamba/mamba_utils.py,
gated_delta_net_state_shape; states in 32 bits, as Qwen3.5's config has it: mamba_ssm_dtype). An indexer keeps
a key of each token in fp8 with a scale of 32 bits for every 128 elements (vLLM: models/deepseek_v2.py,
DeepseekV32IndexerCache).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.heads import cached_width
from perfcast.core.layer import num_linear_before
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision
from perfcast.core.transformer import Transformer
from perfcast.core.weights import layers_of_stages

_STATE = DType.FP32
_INDEX_BLOCK, _INDEX_SCALE_BYTES = 128, 4


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """What one rank keeps of a sequence.

    Attributes:
        token_bytes: Of every token, in layers that see all of them.
        window_token_bytes: Of each of the last ``window`` tokens, in layers that see no others.
        window: 0 where no layer has one.
        state_bytes: Of a sequence however long: states of layers with linear attention.
    """

    token_bytes: float
    window_token_bytes: float
    window: int
    state_bytes: float

    @property
    def sequence_bytes(self) -> float:
        """Of a sequence whose window is full, beside ``token_bytes`` of its tokens."""
        return self.window * self.window_token_bytes + self.state_bytes

    def bytes_of(self, tokens: int) -> float:
        """Of one sequence of so many tokens."""
        seen = min(tokens, self.window)
        return tokens * self.token_bytes + seen * self.window_token_bytes + self.state_bytes


def cache_of_engine(model: Transformer, plan: Plan, precision: Precision) -> CacheSizes:
    """What a rank of the stage keeps that keeps most of a token; of a model without any, of the first stage.

    A context-parallel rank keeps its share of the tokens (``plan.context_parallel``), of which this says
    nothing.
    """
    layers = layers_of_stages(model, plan)
    stages = [
        cache_of_layers(
            model, plan.tensor_parallel, precision,
            num_layers=count,
            num_linear=num_linear_before(model, first + count) - num_linear_before(model, first),
        )
        for first, count in ((sum(layers[:stage]), layers[stage]) for stage in range(len(layers)))
    ]  # fmt: skip
    return max(stages, key=lambda sizes: sizes.token_bytes + sizes.window_token_bytes)


def cache_of_layers(
    model: Transformer, tensor_parallel: int, precision: Precision, *, num_layers: int, num_linear: int
) -> CacheSizes:
    """What a rank keeps in some layers, of which windows have their share of the model's."""
    windowed = round(num_layers * model.num_window_layers / model.num_layers)
    each = cached_width(model, tensor_parallel) * precision.cache.bytes_per_element
    each += beside_bytes(model, precision)
    return CacheSizes(
        token_bytes=(num_layers - num_linear - windowed) * each,
        window_token_bytes=windowed * each,
        window=model.sliding_window if windowed else 0,
        state_bytes=num_linear * linear_state_bytes(model, tensor_parallel, precision),
    )


def beside_bytes(model: Transformer, precision: Precision) -> int:
    """Of a token in one layer beside ``cached_width`` elements in the cache's format; 0 without an indexer.

    The indexer's key; and in fp8 a scale of 32 bits for every 128 elements of the compressed vector, whose
    rotated part stays in 16 bits: 656 bytes of 576 elements (vLLM, SGLang: fp8_ds_mla of FlashMLA).
    """
    latent = model.latent_attention
    if model.sparse_attention is None or latent is None or precision.cache_format != "fp8":
        return index_bytes(model)
    scales = math.ceil(latent.kv_rank / _INDEX_BLOCK) * _INDEX_SCALE_BYTES
    return index_bytes(model) + scales + latent.rope_head_size


def index_bytes(model: Transformer) -> int:
    """Of a token's key that an indexer keeps in one layer, whole on every rank; 0 without one."""
    sparse = model.sparse_attention
    if sparse is None:
        return 0
    return sparse.head_size + math.ceil(sparse.head_size / _INDEX_BLOCK) * _INDEX_SCALE_BYTES


def linear_state_bytes(model: Transformer, tensor_parallel: int, precision: Precision) -> int:
    """Of a sequence in one layer with linear attention on a rank; 0 without such layers."""
    linear = model.linear_attention
    if linear is None:
        return 0
    heads = linear.num_value_heads // tensor_parallel
    state = heads * linear.key_head_size * linear.value_head_size
    channels = 2 * linear.num_key_heads // tensor_parallel * linear.key_head_size
    channels += heads * linear.value_head_size
    return _STATE.bytes_of(state) + precision.element.bytes_of(channels * (linear.conv_size - 1))
