"""What an attention kernel has to do: pairs of query and key, flops, bytes, blocks. No device enters.

Symbols: b sequences, q queries and k keys of each, H query heads, G key/value heads, d elements of a query
and key, v of a value, w the window (how many of the latest keys a query sees).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Objects
from perfcast.core.kernel import KernelTable
from perfcast.cost.learned.figures import ARITHMETIC
from perfcast.errors import UnknownNameError


@dataclass(frozen=True)
class Trait:
    """What sets an operation apart.

    Attributes:
        decodes: One query per sequence against a cache.
        latent: Multi-head latent attention (DeepSeek-V2, 2024).
        absorbed: Its decoding form: one latent vector per key, at once key and value of all heads.
        bidirectional: An encoder's.
        backward: Gradients of queries, keys and values.
    """

    decodes: bool = False
    latent: bool = False
    absorbed: bool = False
    bidirectional: bool = False
    backward: bool = False


OPERATIONS: Mapping[str, Trait] = {
    "context": Trait(),
    "generation": Trait(decodes=True),
    "encoder": Trait(bidirectional=True),
    "mla_context": Trait(latent=True),
    "mla_generation": Trait(decodes=True, latent=True, absorbed=True),
    "context_backward": Trait(backward=True),
    "encoder_backward": Trait(bidirectional=True, backward=True),
}

#: Most queries of one block, and keys of one step, in kernels that give each block a tile of queries
#: (FlashAttention-2, Dao 2023); a shorter sequence gets a tile of fewer rows, by whole ``ROW_STEP``.
QUERY_TILE, KEY_STEP, ROW_STEP = 128.0, 64.0, 32.0

#: Kernels for at most this many queries per sequence spread the keys over blocks instead (flash-decoding).
MAX_SPLIT_QUERIES = 16.0

#: Query heads of one key/value head whose rows a block takes together: all of them, but TensorRT-LLM takes
#: one in prefill and where they are more than this, and absorbed latent attention takes tiles of so many.
MAX_PACKED_HEADS, MAX_ABSORBED_HEADS = 32.0, 64.0


@dataclass(frozen=True)
class AttentionWork:
    """Columns of shape [n].

    Attributes:
        flops: Of the products over the pairs of query and key that the mask lets through.
        pairs: Those pairs, all heads and sequences.
        softmax_passes: How often the probabilities are computed, in units of one forward pass.
        outer_bytes: Queries and outputs, and going backward their gradients.
        key_bytes: Keys and values, and going backward their gradients.
        visible_keys: Keys of one sequence that some query sees.
        splits_keys: Whether the keys, not the queries, are spread over the device.
        blocks: Tiles of queries, or groups of packed heads before their keys are split.
        block_rows: Rows of queries that a block multiplies at once.
        pads_rows: Whether a split-key block multiplies whole tiles of rows, as matrix instructions want;
            TensorRT-LLM's kernel for a single row does not use them.
        block_keys, longest_block_keys: Keys that a tile steps over, in whole steps: mean and last tile.
        key_elements: Elements of one key and value.
        widens_keys: 1 where keys are stored in a narrower format than the arithmetic's, else 0.
    """

    flops: Floats
    pairs: Floats
    softmax_passes: Floats
    outer_bytes: Floats
    key_bytes: Floats
    visible_keys: Floats
    splits_keys: Flags
    blocks: Floats
    block_rows: Floats
    pads_rows: Flags
    block_keys: Floats
    longest_block_keys: Floats
    key_elements: Floats
    widens_keys: Floats

    @property
    def traffic_bytes(self) -> Floats:
        """All bytes, each counted once."""
        return self.outer_bytes + self.key_bytes


def flag_operations(kernels: KernelTable) -> dict[str, Flags]:
    """Each field of ``Trait`` as a column.

    Raises:
        UnknownNameError: An operation that ``OPERATIONS`` does not list.
    """
    words = kernels.word("operation").tolist()
    for word in sorted(set(words)):
        if word not in OPERATIONS:
            raise UnknownNameError("attention operation", word, OPERATIONS)
    names = Trait.__dataclass_fields__
    return {name: np.array([getattr(OPERATIONS[word], name) for word in words], dtype=bool) for name in names}


def element_bytes(formats: Objects) -> Floats:
    """Bytes of one element in each format.

    Raises:
        UnknownNameError: A format that ``figures.ARITHMETIC`` does not list.
    """
    words = formats.tolist()
    for word in sorted(set(words)):
        if word not in ARITHMETIC:
            raise UnknownNameError("number format of attention", word, ARITHMETIC)
    return np.array([ARITHMETIC[word].bits / 8 for word in words], dtype=np.float64)


def count_visible_keys(queries: Floats, keys: Floats, window: Floats, causal: Floats) -> Floats:
    """Keys seen by the queries of one head, added up.

    Query i of q sees n_i = k - q + 1 + i keys if causal (the last one sees all), else k; a window caps n_i
    at w. The m queries below the cap contribute m·n_0 + m(m-1)/2, the others w each.
    """
    cap = np.where(window > 0, np.minimum(window, keys), keys)
    first = np.maximum(keys - queries + 1, 1)
    below = np.clip(cap - first + 1, 0, queries)
    ramp = below * first + below * (below - 1) / 2 + (queries - below) * cap
    return np.where(causal > 0, ramp, queries * cap)


def describe_work(kernels: KernelTable) -> AttentionWork:
    """The work of each kernel.

    Forward has two products over the pairs; backward five, three over d and two over v: the scores again,
    and the gradients of probabilities, values, queries and keys (Dao et al. 2022, algorithm 4).
    """
    flags = flag_operations(kernels)
    batch, queries, keys = (kernels.size(name) for name in ("batch", "num_queries", "num_keys"))
    heads, size, value_size = (kernels.size(name) for name in ("num_heads", "head_size", "value_head_size"))
    window, causal, backward = kernels.size("window"), kernels.size("causal"), flags["backward"]
    seen = count_visible_keys(queries, keys, window, causal)
    pairs = batch * heads * seen
    splits = (queries <= MAX_SPLIT_QUERIES) & (keys > queries) & ~backward
    packed = _pack_heads(kernels, splits, flags["absorbed"])
    rows = np.minimum(queries, QUERY_TILE)
    visible = np.where(window > 0, np.minimum(keys, window + queries - 1), keys)
    longest = np.where(window > 0, np.minimum(keys, window + rows - 1), keys)
    reach = np.minimum(seen / queries + np.where(causal > 0, (rows - 1) / 2, 0.0), longest)
    bytes_per_element = element_bytes(kernels.word("kv_dtype"))
    key_elements = size + np.where(flags["absorbed"], 0.0, value_size)
    return AttentionWork(
        flops=2 * pairs * np.where(backward, 3 * size + 2 * value_size, size + value_size),
        pairs=pairs,
        softmax_passes=np.where(backward, 2.0, 1.0),
        outer_bytes=_count_outer_bytes(kernels, backward),
        key_bytes=_count_key_bytes(kernels, visible, key_elements * bytes_per_element, backward),
        visible_keys=visible,
        splits_keys=splits,
        blocks=batch * heads / packed * np.where(splits, 1.0, np.ceil(queries * packed / QUERY_TILE)),
        block_rows=np.where(
            splits, queries * packed, _round_up(np.minimum(queries * packed, QUERY_TILE), ROW_STEP)
        ),
        pads_rows=(kernels.word("framework") != "trtllm") | (queries * packed > 1),
        block_keys=_round_up(reach, KEY_STEP),
        longest_block_keys=_round_up(longest, KEY_STEP),
        key_elements=key_elements,
        widens_keys=(bytes_per_element < element_bytes(kernels.word("dtype"))).astype(np.float64),
    )


def _pack_heads(kernels: KernelTable, splits_keys: Flags, absorbed: Flags) -> Floats:
    """Query heads of one key/value head whose rows a block takes together."""
    group = kernels.size("num_heads") / kernels.size("num_kv_heads")
    alone = (kernels.word("framework") == "trtllm") & (~splits_keys | (group > MAX_PACKED_HEADS))
    return np.where(absorbed, np.minimum(group, MAX_ABSORBED_HEADS), np.where(alone, 1.0, group))


def _round_up(amount: Floats, step: float) -> Floats:
    return step * np.ceil(amount / step)


def _count_outer_bytes(kernels: KernelTable, backward: Flags) -> Floats:
    """Queries and outputs. Backward reads them again beside the outputs' gradients, and writes those of
    queries: 5 arrays for 2. Quantised queries (one byte) still give outputs of 16 bits.
    """
    width = kernels.size("head_size") + kernels.size("value_head_size")
    elements = kernels.size("batch") * kernels.size("num_queries") * kernels.size("num_heads") * width
    outer = elements * np.maximum(element_bytes(kernels.word("dtype")), 2.0)
    return np.asarray(outer * np.where(backward, 2.5, 1.0))


def _count_key_bytes(
    kernels: KernelTable, visible_keys: Floats, bytes_per_key: Floats, backward: Flags
) -> Floats:
    """Keys and values that some query sees; backward writes as many gradients."""
    inner = kernels.size("batch") * visible_keys * kernels.size("num_kv_heads") * bytes_per_key
    return np.asarray(inner * np.where(backward, 2.0, 1.0))
