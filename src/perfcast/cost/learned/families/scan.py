"""Linear attention (gated delta rule), state-space (Mamba-2) kernels, and the short convolution before.

``operation`` says which kernel, and with it how the kernel goes through a sequence (``OPERATIONS``):

* convolution: reads and writes tokens · channels elements; TensorRT-LLM's takes a block of up to 1024 tokens
  of one channel, whose fixed cost dominates short sequences;
* update: the same for the next token of every sequence;
* recurrent: the next token of every sequence; the whole state is read and written;
* chunked: products within a chunk of tokens, and a state handed on from chunk to chunk: sequence / chunk
  steps in a row, in as many lanes as there are sequences and heads; a chain of kernels that pass over inputs
  and outputs several times; or, fused, a single kernel.

Channels are the elements of query, key and value of a token. In state-space models B and C of a group are key
and query, and x is the value (Dao and Gu, ICML 2024, arXiv 2405.21060). ``seconds`` of each is
floor + hypot(memory, steps in a row).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelFamily, KernelTable, encode_words
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures

family = KernelFamily.SCAN

feature_names = (
    "total_over_floor", "lanes_per_sm", "batch", "sequence_length", "channels", "heads", "operation",
    "framework",
)  # fmt: skip


@dataclass(frozen=True)
class Pace:
    """What a kernel takes beyond its bytes.

    Attributes:
        floor_seconds: Of one block, or of the chain of kernels, with next to no work.
        passes: Times that inputs and outputs move.
        block_cycles: Cycles of a multiprocessor for a convolution's block.
        chunk_cycles: Cycles of a chunk in a lane that has a multiprocessor for itself.
        lane_cycles: Cycles of a multiprocessor for one chunk of one lane, where lanes share it.
    """

    floor_seconds: float
    passes: float = 1.0
    block_cycles: float = 0.0
    chunk_cycles: float = 0.0
    lane_cycles: float = 0.0


#: Fitted: least mean of |log(measured / seconds)| over CUDA-graph timings on A100, H100, H200, L40S, B200 and
#: GB200, each architecture weighing the same, by Powell's method, then rounded; the share of the datasheet
#: bandwidth is a compromise between 0.8 (H100, L40S) and 1. Without an architecture the fit moves that one's
#: error from 0.22, 0.25, 0.22 to 0.23, 0.31, 0.26 (Hopper, Ada, Blackwell).
CONVOLUTION = Pace(3.3e-6)
CHANNEL_CONVOLUTION = Pace(4.5e-6, block_cycles=270.0)
UPDATE = Pace(2.1e-6)
CHANNEL_UPDATE = Pace(4e-6)
RECURRENT = Pace(3.8e-6)
CHUNKED = Pace(20e-6, 9.0, 0.0, 5200.0, 25500.0)
FUSED_CHUNKED = Pace(16e-6, 1.0, 0.0, 4800.0, 6900.0)
MEMORY_EFFICIENCY = 0.87
#: Share of the cache that repeated data may fill, and bytes a cycle that a multiprocessor then takes from it.
CACHE_SHARE = 0.9
CACHE_BYTES_PER_CYCLE = 15.0

#: The place in the list is the operation's code.
OPERATIONS = {
    "causal_conv1d_fn": "convolution",
    "causal_conv1d_update": "update",
    "fused_recurrent_gated_delta_rule": "recurrent",
    "fused_recurrent_gated_delta_rule_packed_decode": "recurrent",
    "selective_state_update": "recurrent",
    "chunk_gated_delta_rule": "chunked",
    "chunk_gated_delta_rule_triton": "chunked",
    "mamba_chunk_scan_combined": "chunked",
    "chunk_gated_delta_rule_flashinfer": "fused",
}
_FRAMEWORKS = ("sglang", "trtllm", "vllm")
#: How sharply residence ends when the data outgrow the cache.
_CACHE_POWER = 8.0
_CHUNK_TOKENS = 64.0
_BLOCK_TOKENS = 1024.0
_ELEMENT_BYTES = 2.0
_STATE_BYTES = 4.0
#: No multiprocessor takes more than a 128-byte line from the cache in a cycle.
_LOAD_PEAK_BYTES_PER_CYCLE = 128.0


@dataclass(frozen=True)
class ScanWork:
    """Sizes that decide the time, shape [n] each.

    Attributes:
        channels: Elements of a token that enter.
        heads: Heads that keep a state.
        state_bytes: State of all sequences, where the kernel reads and writes all of it.
        stream_bytes: Inputs read and outputs written, once.
        flops: Of the fewest multiply-adds that update and read the state; zero for convolutions.
        chunks: Steps in a row of a chunked kernel.
        code: Of the operation.
        manner: How the kernel goes through a sequence.
    """

    channels: Floats
    heads: Floats
    state_bytes: Floats
    stream_bytes: Floats
    flops: Floats
    chunks: Floats
    code: Floats
    manner: NDArray[np.str_]


def count_work(kernels: KernelTable) -> ScanWork:
    """Bytes, flops and steps of each call.

    Raises:
        ValueError: An operation that is not known.
    """
    code, manner = _operations(kernels)
    heads, head_size = kernels.size("num_value_heads"), kernels.size("value_head_size")
    keys = kernels.size("num_key_heads") * kernels.size("key_head_size")
    channels = 2.0 * keys + heads * head_size
    tokens = kernels.size("batch") * kernels.size("sequence_length")
    state = heads * head_size * kernels.size("state_size")
    is_conv = (manner == "convolution") | (manner == "update")
    kept = np.where(manner == "update", channels * (kernels.size("conv_size") - 1.0) * _ELEMENT_BYTES, 0.0)
    kept = np.where(manner == "recurrent", state * _STATE_BYTES, kept)
    chunk = np.where(kernels.size("chunk_size") > 0, kernels.size("chunk_size"), _CHUNK_TOKENS)
    return ScanWork(
        channels=channels,
        heads=heads,
        state_bytes=kernels.size("batch") * kept,
        stream_bytes=tokens * (channels + np.where(is_conv, channels, heads * head_size)) * _ELEMENT_BYTES,
        flops=np.where(is_conv, 0.0, 4.0 * tokens * state),
        chunks=np.ceil(kernels.size("sequence_length") / chunk),
        code=code,
        manner=manner,
    )


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Physics and features of each call.

    Raises:
        ValueError: An operation that is not known.
    """
    work = count_work(kernels)
    pace = _paces(kernels, work)
    traffic = work.stream_bytes + 2.0 * work.state_bytes
    footprint = work.stream_bytes + work.state_bytes
    resident = 1.0 / (1.0 + (footprint / (CACHE_SHARE * figures.l2_bytes)) ** _CACHE_POWER)
    sm_cycles = figures.num_sms * figures.clock_hertz
    slow = figures.memory_bytes_per_second * MEMORY_EFFICIENCY
    fast = np.maximum(sm_cycles * CACHE_BYTES_PER_CYCLE, slow)
    moving = pace.passes * traffic * ((1.0 - resident) / slow + resident / fast)
    lanes, serial = _price_steps(kernels, figures, work, pace)
    total = pace.floor_seconds + np.hypot(moving, serial)
    compute_seconds = work.flops / figures.matrix_flops_per_second
    beyond_cache = np.maximum(traffic - 2.0 * figures.l2_bytes, 0.0)
    memory_seconds = np.maximum(
        beyond_cache / figures.memory_bytes_per_second, traffic / (sm_cycles * _LOAD_PEAK_BYTES_PER_CYCLE)
    )
    return Physics(
        seconds=np.maximum(total, np.maximum(compute_seconds, memory_seconds)),
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        features=_features(kernels, work, total / pace.floor_seconds, lanes),
    )


@dataclass(frozen=True)
class _Paces:
    """``Pace`` in columns."""

    floor_seconds: Floats
    passes: Floats
    block_cycles: Floats
    chunk_cycles: Floats
    lane_cycles: Floats


def _paces(kernels: KernelTable, work: ScanWork) -> _Paces:
    by_channel = kernels.word("framework") == "trtllm"
    choices = (
        ((work.manner == "convolution") & ~by_channel, CONVOLUTION),
        ((work.manner == "convolution") & by_channel, CHANNEL_CONVOLUTION),
        ((work.manner == "update") & ~by_channel, UPDATE),
        ((work.manner == "update") & by_channel, CHANNEL_UPDATE),
        (work.manner == "recurrent", RECURRENT),
        (work.manner == "chunked", CHUNKED),
        (work.manner == "fused", FUSED_CHUNKED),
    )
    where = [condition for condition, _ in choices]
    return _Paces(
        *(np.select(where, [getattr(pace, field.name) for _, pace in choices]) for field in fields(Pace))
    )


def _price_steps(
    kernels: KernelTable, figures: Figures, work: ScanWork, pace: _Paces
) -> tuple[Floats, Floats]:
    """Blocks or lanes per multiprocessor, and seconds of what runs one after the other in them."""
    batch = kernels.size("batch")
    is_conv = work.manner == "convolution"
    steps = np.ceil(kernels.size("sequence_length") / _BLOCK_TOKENS)
    blocks = batch * work.channels * steps / figures.num_sms
    lanes = batch * work.heads / figures.num_sms
    chunk_cycles = work.chunks * np.maximum(pace.chunk_cycles, lanes * pace.lane_cycles)
    cycles = blocks * pace.block_cycles + chunk_cycles
    return np.where(is_conv, blocks, lanes), cycles / figures.clock_hertz


def _features(kernels: KernelTable, work: ScanWork, total_over_floor: Floats, lanes: Floats) -> Floats:
    framework = kernels.word("framework")
    framework_code = np.full(len(kernels), float(len(_FRAMEWORKS)))
    for index, name in enumerate(_FRAMEWORKS):
        framework_code[framework == name] = index
    columns = (
        np.log(total_over_floor),
        np.log(lanes),
        np.log(kernels.size("batch")),
        np.log(kernels.size("sequence_length")),
        np.log(work.channels),
        np.log(work.heads),
        work.code,
        framework_code,
    )
    return np.stack(columns, axis=1)


def _operations(kernels: KernelTable) -> tuple[Floats, NDArray[np.str_]]:
    """Code of each operation, and how it goes through a sequence."""
    names, which = encode_words(kernels.word("operation"))
    unknown = sorted(set(names) - OPERATIONS.keys())
    if unknown:
        raise ValueError(f"scan: unknown operation {', '.join(unknown)}; known are {', '.join(OPERATIONS)}")
    order = list(OPERATIONS)
    code = np.array([float(order.index(name)) for name in names])
    return code[which], np.array([OPERATIONS[name] for name in names], dtype=np.str_)[which]
