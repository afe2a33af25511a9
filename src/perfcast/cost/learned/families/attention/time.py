"""How long an attention kernel takes on paper: tiles and waves, exponentials, split keys, caches."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.cost.learned.families.attention.work import AttentionWork
from perfcast.cost.learned.figures import Figures

#: Keys of one step of a split-key kernel, and the rows that its matrix instructions take together.
SPLIT_KEY_STEP, SPLIT_ROW_STEP = 128.0, 16.0

#: Split-key kernels cut the keys until this many blocks per multiprocessor run.
SPLIT_BLOCKS_PER_SM = 2.0

#: Fewer keys than this are joined in part of the time.
MIN_JOINED_KEYS = 512.0

#: Reading a working set of x times the share of the last-level cache that survives until the next run, the
#: fraction 1 / (1 + x**6) comes from the cache: measured times jump within a factor of two of it.
CACHE_SHARPNESS = 6.0

#: Bytes that a run can find in the last-level cache, as a multiple of its size; measured replays reuse
#: nearly 1.5 times its nominal size before the memory's bandwidth bounds them.
CACHED_MULTIPLE = 1.5


@dataclass(frozen=True)
class AttentionConstants:
    """Constants of one framework's kernels, numbers or columns. Cycles are of one multiprocessor.

    Attributes:
        base_seconds, base_cycles: Start and end of a kernel that has next to nothing to do; their sum counts.
        block_cycles: Start and end of a block.
        group_cycles: More of them for a block that packs several rows, in split-key kernels.
        vector_cycles: Softmax of one pair: exponential (a sixteenth of a cycle on NVIDIA devices), maximum,
            sum, conversion; they do not get faster with the matrix units.
        element_cycles, widen_cycles: Loading one element of a key or value, and widening it (split keys).
        overlap_power: 1 adds products and softmax, a large power takes the longer.
        matrix_efficiency: Of the peak, within a tile.
        min_rows: Rows that a split-key block multiplies at least.
        reduction_cycles: Joining the parts of split keys.
        passes: How often the traffic goes to memory, with what prepares and stores the operands.
        memory_efficiency: Of the datasheet's bandwidth.
        cache_bytes_per_cycle: What the last-level cache delivers to one multiprocessor when all read.
        core_bytes_per_cycle: What one multiprocessor can take in.
        cache_share: Of the last-level cache that survives from one run to the next.
        roof_power: Like ``overlap_power``, for arithmetic and traffic.
    """

    base_seconds: Floats | float
    base_cycles: Floats | float
    block_cycles: Floats | float
    group_cycles: Floats | float
    vector_cycles: Floats | float
    element_cycles: Floats | float
    widen_cycles: Floats | float
    overlap_power: Floats | float
    matrix_efficiency: Floats | float
    min_rows: Floats | float
    reduction_cycles: Floats | float
    passes: Floats | float
    memory_efficiency: Floats | float
    cache_bytes_per_cycle: Floats | float
    core_bytes_per_cycle: Floats | float
    cache_share: Floats | float
    roof_power: Floats | float


@dataclass(frozen=True)
class AttentionTime:
    """Columns of shape [n].

    Attributes:
        seconds: All parts joined.
        base_seconds: Of a kernel with nothing to do.
        block_seconds: Starting and ending blocks.
        arithmetic_seconds: Blocks with their products and softmax, in waves.
        traffic_seconds: Bytes through caches and memory.
        vector_over_matrix: Softmax (and loading, where keys are split) over products, of one pair.
        waves: Blocks per multiprocessor.
        splits: Parts that the keys of one sequence are cut into.
    """

    seconds: Floats
    base_seconds: Floats
    block_seconds: Floats
    arithmetic_seconds: Floats
    traffic_seconds: Floats
    vector_over_matrix: Floats
    waves: Floats
    splits: Floats


def choose_constants(table: tuple[AttentionConstants, ...], index: Integers) -> AttentionConstants:
    """Columns: row i has the constants ``table[index[i]]``."""
    names = [field.name for field in fields(AttentionConstants)]
    return AttentionConstants(**{name: np.array([getattr(c, name) for c in table])[index] for name in names})


def join_overlapping(first: Floats, second: Floats, power: Floats | float) -> Floats:
    """(first**p + second**p)**(1/p): two parts that overlap in part."""
    longer, shorter = np.maximum(first, second), np.minimum(first, second)
    return longer * (1 + (shorter / longer) ** power) ** (1 / power)


def time_attention(work: AttentionWork, figures: Figures, constants: AttentionConstants) -> AttentionTime:
    """base + (arithmetic joined with traffic)."""
    cycle = 1 / figures.clock_hertz
    base = constants.base_seconds + constants.base_cycles * cycle
    splits = _count_splits(work, figures)
    waves = work.blocks * splits / figures.num_sms
    matrix, vector = _key_seconds(work, figures, constants)
    key = join_overlapping(matrix, vector, constants.overlap_power)
    packs = work.splits_keys & (work.block_rows > 1)
    block = cycle * (constants.block_cycles + np.where(packs, constants.group_cycles, 0.0))
    joining = constants.reduction_cycles * cycle * np.minimum(work.visible_keys / MIN_JOINED_KEYS, 1)
    arithmetic = np.where(
        work.splits_keys,
        _split_seconds(work, waves, splits, block, key) + joining,
        _tile_seconds(work, waves, block, key),
    )
    traffic = _traffic_seconds(work, figures, waves, constants)
    return AttentionTime(
        seconds=base + join_overlapping(arithmetic, traffic, constants.roof_power),
        base_seconds=base,
        block_seconds=np.maximum(waves, 1) * block,
        arithmetic_seconds=arithmetic,
        traffic_seconds=traffic,
        vector_over_matrix=vector / matrix,
        waves=waves,
        splits=splits,
    )


def _count_splits(work: AttentionWork, figures: Figures) -> Floats:
    """Parts of the keys: enough for all multiprocessors, none shorter than a step. Not rounded: a rounded
    count would let a larger batch take less time.
    """
    wanted = SPLIT_BLOCKS_PER_SM * figures.num_sms / work.blocks
    splits = np.clip(wanted, 1, np.maximum(work.visible_keys / SPLIT_KEY_STEP, 1))
    return np.where(work.splits_keys, splits, 1.0)


def _key_seconds(
    work: AttentionWork, figures: Figures, constants: AttentionConstants
) -> tuple[Floats, Floats]:
    """Products, and everything else, that a block does with one key."""
    whole_rows = SPLIT_ROW_STEP * np.ceil(work.block_rows / SPLIT_ROW_STEP)
    pads = work.splits_keys & work.pads_rows
    rows = np.where(pads, np.maximum(whole_rows, constants.min_rows), work.block_rows)
    per_sm = constants.matrix_efficiency * figures.matrix_flops_per_second / figures.num_sms
    loading = constants.element_cycles + constants.widen_cycles * work.widens_keys
    cycles = rows * constants.vector_cycles * work.softmax_passes + np.where(
        work.splits_keys, loading * work.key_elements, 0.0
    )
    return rows * (work.flops / work.pairs) / per_sm, cycles / figures.clock_hertz


def _tile_seconds(work: AttentionWork, waves: Floats, block: Floats, key: Floats) -> Floats:
    """Whole waves of tiles of mean length, or the longest tile if that takes longer."""
    return np.maximum(np.ceil(waves) * (block + work.block_keys * key), block + work.longest_block_keys * key)


def _split_seconds(work: AttentionWork, waves: Floats, splits: Floats, block: Floats, key: Floats) -> Floats:
    """Waves of equal parts of the keys, in whole steps; several blocks share a multiprocessor, so that the
    last wave costs what it holds.
    """
    steps = np.ceil(np.round(work.visible_keys / splits / SPLIT_KEY_STEP, 6))
    return np.maximum(waves, 1) * (block + SPLIT_KEY_STEP * steps * key)


def _traffic_seconds(
    work: AttentionWork, figures: Figures, waves: Floats, constants: AttentionConstants
) -> Floats:
    """Bytes from the cache or memory, no faster than the multiprocessors at work can take them."""
    share = work.traffic_bytes / (constants.cache_share * figures.l2_bytes)
    hits = 1 / (1 + share**CACHE_SHARPNESS)
    cycles_per_second = figures.num_sms * figures.clock_hertz
    memory_rate = constants.memory_efficiency * figures.memory_bytes_per_second
    cache_rate = np.maximum(cycles_per_second * constants.cache_bytes_per_cycle, memory_rate)
    shared = work.traffic_bytes * ((1 - hits) / memory_rate + hits / cache_rate)
    # Queries are not split: their blocks alone take them in.
    waves_of_outer = np.minimum(work.blocks / figures.num_sms, 1)
    alone = work.outer_bytes / waves_of_outer + work.key_bytes / np.minimum(waves, 1)
    core_rate = cycles_per_second * constants.core_bytes_per_cycle
    return np.asarray(constants.passes * np.maximum(shared, alone / core_rate))
