"""Kernels that stream memory: element-wise, softmax, norms, copies, lookups, optimizers, quantisation.

    seconds = base + (traffic^p + arithmetic^p + waiting^p)^(1/p)

    traffic     (bytes + extra reads · miss · bytes read) / rate. Who reads a row again finds it in the
                last-level cache only while the rows in flight fit there; where nobody owns a row, only if
                the whole tensor does; an operand that all rows share, if a row of all tensors does. The rate
                is the memory's, or the cache's for a tensor that is still there from the run before. A second
                kernel finds what the first one read in the cache if all of it fits.
    arithmetic  elements · cycles / (multiprocessors · clock): issue slots of arithmetic, loads and stores.
    waiting     rows / rows in flight · steps in a row of the block that owns a row, each a memory latency.

Rows in flight and steps follow from the threads of a block as PyTorch chooses them (aten/native/cuda,
``layer_norm_kernel.cu`` and ``SoftMax.cu``): layer norm takes 128 threads and loads of 16 bytes; a softmax
over H > 1024 fp32 elements takes a power of two of threads, H / 8 or more but at most 512, and goes over what
is left after whole steps of 16 bytes a thread element by element.

Calls of PyTorch in fp32 were timed one by one with their launch inside: the device waits for the host before
the kernel (``_EAGER_BASE_SECONDS``), and the whole is never below the host's own time (``_HOST_SECONDS``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.cost.learned.families.row_operations import BehaviourColumns, Pattern, collect_behaviours
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures

family = KernelFamily.ROWS

feature_names = (
    "base_share", "traffic_share", "arithmetic_share", "waiting_share", "miss", "warm", "log_rows_per_slot",
    "step_waste", "misaligned", "extra_reads", "log_row_length", "library", "operation", "stacked",
)  # fmt: skip

#: All constants of this module and the measured ones of ``row_operations``: one fit, by least squares on a
#: smoothed absolute log(measured / seconds), to fp32 kernels of PyTorch (P4, P100, V100, T4, A100), fp16 ones
#: (A40, A100, H100) and quantisation (H100, H200, L40S, B200, GB200), with four scalars a device beside them
#: (host, base, bandwidth, cycles) that were drawn to zero and then dropped.
_EFFICIENCY_PLAIN = 0.770
_EFFICIENCY_STACKED = 0.922
_POWER_STREAM = 1.62
_POWER_ROWS = 1.87
_MISS_AT, _MISS_SHARPNESS = 0.985, 5.72
_WARM_AT, _WARM_SHARPNESS = 1.26, 4.1
_L2_BYTES_PER_CYCLE = 22.3
_NORM_STEP_CYCLES, _NORM_FIXED_CYCLES = 2 * 185.0, 7430.0
_SOFTMAX_STEP_CYCLES, _SOFTMAX_FIXED_CYCLES, _SOFTMAX_REST = 3 * 394.0, 7130.0, 0.313
_EAGER_BASE_SECONDS = {
    "binary": 16.2e-6,
    "unary": 18.6e-6,
    "norm": 46.7e-6,
    "warp": 25.5e-6,
    "block": 35.2e-6,
}
_HOST_SECONDS = {"binary": 31.1e-6, "unary": 36.1e-6, "norm": 46.7e-6, "softmax": 39.9e-6}

#: Stacked memory (HBM) is told by its bandwidth for each multiprocessor: 10.2 GB/s (MI100) and more, where
#: soldered chips give 5 to 10.5. It got efficient with its second generation of controllers, after 2016.
_STACKED_BYTES_PER_SECOND_PER_SM = 10.4e9
_STACKED_SHARPNESS = 30.0
_STACKED_SINCE = 2017.0
#: A large cache beside stacked memory is two halves, each caching for its own multiprocessors (NVIDIA A100
#: whitepaper, 2020): data that both use are there twice.
_SPLIT_CACHE_BYTES = 20e6
_SPLIT_CACHE_SHARE = 0.543

#: Within a step the kernel before left its output in the cache, and takes as much of it again. Not measured.
_COMPETITION_IN_STEP = 2.0

_THREADS_PER_SM = 2048.0
_BLOCKS_PER_SM = 16.0
_WARP_ELEMENTS = 1024.0
_LOAD_BYTES = 16.0
_SECTOR_BYTES = 32.0
_NORM_THREADS = 128.0
_BLOCK_THREADS = 1024.0


@dataclass(frozen=True)
class Blocks:
    """How rows are dealt out to blocks; arrays of shape [n].

    Attributes:
        in_flight: Rows that the device works on at a time, at most.
        whole_steps: Steps of a block over a row with loads of 16 bytes a thread.
        rest_steps: Further steps, an element a thread.
        is_warp: A softmax whose row fits the registers of a warp.
    """

    in_flight: Floats
    whole_steps: Floats
    rest_steps: Floats
    is_warp: Flags


@dataclass(frozen=True)
class RowTime:
    """Parts of the time and what they depend on; arrays of shape [n]."""

    seconds: Floats
    base_seconds: Floats
    traffic_seconds: Floats
    arithmetic_seconds: Floats
    waiting_seconds: Floats
    miss: Floats
    warm: Floats
    stacked: Floats


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Physics and features of each call."""
    behaviours = collect_behaviours(kernels)
    blocks = deal_rows(kernels, figures, behaviours)
    time = time_rows(kernels, figures, behaviours, blocks)
    total_bytes = kernels.size("read_bytes") + kernels.size("written_bytes")
    memory_seconds = np.maximum(total_bytes - figures.l2_bytes, 0.0) / figures.memory_bytes_per_second
    compute_seconds = kernels.size("num_rows") * kernels.size("row_length") / figures.vector_flops_per_second
    return Physics(
        seconds=np.maximum(time.seconds, np.maximum(memory_seconds, compute_seconds)),
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        features=_features(kernels, behaviours, blocks, time),
    )


def deal_rows(kernels: KernelTable, figures: Figures, behaviours: BehaviourColumns) -> Blocks:
    """Threads of a block, and from them rows in flight and steps."""
    length, pattern = kernels.size("row_length"), behaviours.pattern
    owned = is_row_wise(behaviours)
    element_bytes = kernels.size("written_bytes") / (kernels.size("num_rows") * length)
    vector = np.where(owned, _LOAD_BYTES / np.clip(element_bytes, 1.0, 8.0), 4.0)
    half = np.maximum(np.minimum(length / vector, _BLOCK_THREADS) / 2.0, 1.0)
    threads = np.maximum(2.0 ** np.ceil(np.log2(half) - 1e-9), 32.0)
    threads = np.where(pattern == Pattern.LAYER_NORM, _NORM_THREADS, threads)
    threads = np.where(pattern == Pattern.BLOCK, _BLOCK_THREADS, threads)
    whole = np.floor(length / (vector * threads))
    rest = np.ceil((length - whole * vector * threads) / threads - 1e-9)
    is_norm = pattern == Pattern.LAYER_NORM
    return Blocks(
        in_flight=figures.num_sms * np.minimum(np.floor(_THREADS_PER_SM / threads), _BLOCKS_PER_SM),
        whole_steps=np.where(is_norm, np.ceil(length / (vector * threads)), whole),
        rest_steps=np.where(is_norm, 0.0, np.maximum(rest, 0.0)),
        is_warp=(pattern == Pattern.SOFTMAX) & (length <= _WARP_ELEMENTS),
    )


def time_rows(
    kernels: KernelTable, figures: Figures, behaviours: BehaviourColumns, blocks: Blocks
) -> RowTime:
    """The law of the module's docstring."""
    stacked = memory_is_stacked(figures)
    traffic, miss, warm = _traffic(kernels, figures, behaviours, blocks, stacked)
    arithmetic = _arithmetic(kernels, figures, behaviours, blocks)
    waiting = _waiting(kernels, figures, behaviours, blocks)
    owned = (behaviours.pattern == Pattern.LAYER_NORM) | (behaviours.pattern == Pattern.SOFTMAX)
    power = np.where(owned, _POWER_ROWS, _POWER_STREAM)
    longest = np.maximum(np.maximum(traffic, arithmetic), waiting)
    parts = [(part / longest) ** power for part in (traffic, arithmetic, waiting)]
    base, host = _launch(kernels, behaviours, blocks)
    return RowTime(
        seconds=np.maximum(base + longest * sum(parts) ** (1.0 / power), host),
        base_seconds=np.maximum(base, host),
        traffic_seconds=traffic,
        arithmetic_seconds=arithmetic,
        waiting_seconds=waiting,
        miss=miss,
        warm=warm,
        stacked=stacked,
    )


def memory_is_stacked(figures: Figures) -> Floats:
    """1 for efficient stacked memory, 0 for soldered chips or the first generation, between in doubt."""
    rate = figures.memory_bytes_per_second / figures.num_sms
    share = 1.0 / (1.0 + (rate / _STACKED_BYTES_PER_SECOND_PER_SM) ** -_STACKED_SHARPNESS)
    return np.where(figures.year >= _STACKED_SINCE, share, 0.0)


def _traffic(
    kernels: KernelTable,
    figures: Figures,
    behaviours: BehaviourColumns,
    blocks: Blocks,
    stacked: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Seconds of traffic; share of second reads that miss the cache; share of the tensors found there."""
    read, rows = kernels.size("read_bytes"), kernels.size("num_rows")
    total = read + kernels.size("written_bytes")
    efficiency = _EFFICIENCY_PLAIN * (_EFFICIENCY_STACKED / _EFFICIENCY_PLAIN) ** stacked
    memory_rate = efficiency * figures.memory_bytes_per_second
    cycles = figures.num_sms * figures.clock_hertz
    cache_rate = np.maximum(_L2_BYTES_PER_CYCLE * cycles, memory_rate)
    is_split = (figures.l2_bytes >= _SPLIT_CACHE_BYTES) & (stacked > 0.5)
    cache = figures.l2_bytes * np.where(is_split, _SPLIT_CACHE_SHARE, 1.0)
    is_owned, is_shared = is_row_wise(behaviours), behaviours.pattern == Pattern.BROADCAST
    live = np.where(is_owned, np.minimum(blocks.in_flight, rows) * read / rows, read)
    live = np.where(is_shared, total / rows + kernels.size("written_bytes") / rows, live)
    miss = _share_above(live / (_MISS_AT * cache), _MISS_SHARPNESS)
    reused = total * (_COMPETITION_IN_STEP if kernels.is_cold else 1.0)
    warm = 1.0 - _share_above(reused / (_WARM_AT * cache), _WARM_SHARPNESS)
    extra = np.where(blocks.is_warp, 0.0, behaviours.extra_reads)
    element_bytes = np.clip(total / (rows * kernels.size("row_length")), 1.0, _SECTOR_BYTES)
    waste = 1.0 + behaviours.scattered_share * (_SECTOR_BYTES / element_bytes - 1.0)
    again = np.where(is_shared, (1.0 - 1.0 / rows) * kernels.size("written_bytes"), read)
    moved = waste * total + extra * miss * again
    left = 1.0 - _share_above(total / (_WARM_AT * cache), _WARM_SHARPNESS)

    def seconds(num_bytes: Floats, in_cache: Floats) -> Floats:
        return num_bytes * ((1.0 - in_cache) / memory_rate + in_cache / cache_rate)

    return seconds(moved, warm) + seconds(behaviours.second_reads * read, left), miss, warm


def is_row_wise(behaviours: BehaviourColumns) -> Flags:
    """Whether a block or a warp owns a row."""
    pattern = behaviours.pattern
    return np.asarray((pattern != Pattern.STREAM) & (pattern != Pattern.BROADCAST), dtype=bool)


def _arithmetic(
    kernels: KernelTable, figures: Figures, behaviours: BehaviourColumns, blocks: Blocks
) -> Floats:
    """A warp that owns a row works on a power of two of elements."""
    length = kernels.size("row_length")
    worked = np.where(blocks.is_warp, 2.0 ** np.ceil(np.log2(np.maximum(length, 1.0))), length)
    cycles = kernels.size("num_rows") * worked * behaviours.cycles
    return cycles / (figures.num_sms * figures.clock_hertz)


def _waiting(kernels: KernelTable, figures: Figures, behaviours: BehaviourColumns, blocks: Blocks) -> Floats:
    steps = blocks.whole_steps + _SOFTMAX_REST * blocks.rest_steps
    softmax = np.where(blocks.is_warp, 0.0, _SOFTMAX_STEP_CYCLES * steps + _SOFTMAX_FIXED_CYCLES)
    norm = _NORM_STEP_CYCLES * blocks.whole_steps + _NORM_FIXED_CYCLES
    pattern = behaviours.pattern
    cycles = np.select([pattern == Pattern.LAYER_NORM, pattern == Pattern.SOFTMAX], [norm, softmax], 0.0)
    turns = np.maximum(kernels.size("num_rows") / blocks.in_flight, 1.0)
    return np.asarray(turns * cycles / figures.clock_hertz, dtype=np.float64)


def _launch(kernels: KernelTable, behaviours: BehaviourColumns, blocks: Blocks) -> tuple[Floats, Floats]:
    """Seconds before the kernel's work, and the least that the host takes."""
    is_eager = (kernels.word("framework") == "pytorch") & (kernels.word("dtype") == "fp32")
    is_eager = is_eager & (not kernels.is_cold)
    is_unary = kernels.size("read_bytes") < 1.5 * kernels.size("written_bytes")
    is_norm, is_softmax = (behaviours.pattern == p for p in (Pattern.LAYER_NORM, Pattern.SOFTMAX))
    before, host = _EAGER_BASE_SECONDS, _HOST_SECONDS
    eager = np.select(
        [is_norm, blocks.is_warp, is_softmax, is_unary],
        [before["norm"], before["warp"], before["block"], before["unary"]],
        before["binary"],
    )
    least = np.select(
        [is_norm, is_softmax, is_unary], [host["norm"], host["softmax"], host["unary"]], host["binary"]
    )
    return np.where(is_eager, eager, behaviours.base_seconds), np.where(is_eager, least, 0.0)


def _share_above(ratio: Floats, sharpness: float) -> Floats:
    """From 0 far below ratio 1 to 1 far above."""
    powered: Floats = np.minimum(ratio, 1e6) ** sharpness
    return powered / (1.0 + powered)


def _features(kernels: KernelTable, behaviours: BehaviourColumns, blocks: Blocks, time: RowTime) -> Floats:
    length = kernels.size("row_length")
    owned = is_row_wise(behaviours)
    steps = blocks.whole_steps + blocks.rest_steps
    columns = (
        time.base_seconds / time.seconds,
        time.traffic_seconds / time.seconds,
        time.arithmetic_seconds / time.seconds,
        time.waiting_seconds / time.seconds,
        time.miss,
        time.warm,
        np.where(owned, np.log2(kernels.size("num_rows") / blocks.in_flight), 0.0),
        np.where(owned, blocks.rest_steps / np.maximum(steps, 1.0), 0.0),
        np.where(length % 4 == 0, 0.0, np.where(length % 2 == 0, 1.0, 2.0)),
        np.where(blocks.is_warp, 0.0, behaviours.extra_reads),
        np.where(owned, np.log2(np.maximum(length, 1.0)), 0.0),
        _library_code(kernels),
        behaviours.code,
        time.stacked,
    )
    return np.stack(columns, axis=1)


def _library_code(kernels: KernelTable) -> Floats:
    framework = kernels.word("framework")
    libraries = ("pytorch", "sglang", "trtllm", "vllm")
    return np.select(
        [framework == name for name in libraries], [float(i) for i in range(len(libraries))], -1.0
    )
