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

from perfcast.core.dtype import DType
from perfcast.core.model.transformer import Transformer
from perfcast.core.precision import Precision

_STATE = DType.FP32
_INDEX_BLOCK, _INDEX_SCALE_BYTES = 128, 4


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
