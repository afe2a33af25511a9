"""Attention kernels: prefill, decoding, encoders, latent attention, backward. Physics and features.

No constant of a device stands here: those of ``Figures`` decide, with a few constants of each framework's
kernels (``KERNEL_CONSTANTS``).
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.cost.learned.families.attention.constants import (
    FRAMEWORKS,
    KERNEL_CONSTANTS,
    LATENT_MODULE_SECONDS,
)
from perfcast.cost.learned.families.attention.time import (
    CACHED_MULTIPLE,
    AttentionTime,
    choose_constants,
    time_attention,
)
from perfcast.cost.learned.families.attention.work import AttentionWork, describe_work, flag_operations
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import ARITHMETIC, Figures

family = KernelFamily.ATTENTION

feature_names: tuple[str, ...] = (
    "is_decoding", "is_latent", "is_bidirectional", "is_backward", "is_sglang", "is_trtllm",
    "has_narrow_arithmetic", "has_narrow_keys", "is_windowed", "log_window_reach",
    "log_queries", "log_visible_keys", "log_head_size", "log_group", "log_kv_heads",
    "log_base_share", "log_block_share", "log_traffic_share", "log_vector_over_matrix",
    "log_waves", "last_wave_fill", "log_splits", "log_cache_load",
)  # fmt: skip


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Physics and features of attention kernels.

    Raises:
        UnknownNameError: An operation or number format that is not known.
    """
    work = describe_work(kernels)
    framework = _framework_index(kernels)
    index = framework + len(FRAMEWORKS) * work.splits_keys.astype(np.int64)
    time = time_attention(work, figures, choose_constants(KERNEL_CONSTANTS, index))
    compute_seconds = work.flops / figures.matrix_flops_per_second
    beyond_cache = np.maximum(work.traffic_bytes - CACHED_MULTIPLE * figures.l2_bytes, 0.0)
    memory_seconds = beyond_cache / figures.memory_bytes_per_second
    seconds = np.maximum(time.seconds, _host_seconds(kernels))
    return Physics(
        seconds=np.maximum(seconds, np.maximum(compute_seconds, memory_seconds)),
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        features=_collect_features(kernels, figures, framework, work, time),
    )


def _framework_index(kernels: KernelTable) -> Integers:
    """Position in ``FRAMEWORKS``; others run FlashAttention's kernels, as the last does."""
    words = kernels.word("framework").tolist()
    return np.array(
        [FRAMEWORKS.index(w) if w in FRAMEWORKS else len(FRAMEWORKS) - 1 for w in words], np.int64
    )


def _host_seconds(kernels: KernelTable) -> Floats:
    """Least time of a call that the host launches as many small kernels, 0 where one graph is replayed."""
    launched = flag_operations(kernels)["latent"] & (kernels.word("framework") == "vllm")
    return np.where(launched, LATENT_MODULE_SECONDS, 0.0)


def _collect_features(
    kernels: KernelTable,
    figures: Figures,
    framework: Integers,
    work: AttentionWork,
    time: AttentionTime,
) -> Floats:
    """Columns in the order of ``feature_names``; logarithms to base 2."""
    flags = flag_operations(kernels)
    keys, window = kernels.size("num_keys"), kernels.size("window")
    columns = (
        flags["decodes"], flags["latent"], flags["bidirectional"], flags["backward"],
        framework == FRAMEWORKS.index("sglang"), framework == FRAMEWORKS.index("trtllm"),
        _is_narrow(kernels.word("dtype")), _is_narrow(kernels.word("kv_dtype")),
        window > 0, np.log2(np.where(window > 0, np.maximum(keys / np.maximum(window, 1), 1), 1.0)),
        np.log2(kernels.size("num_queries")), np.log2(work.visible_keys),
        np.log2(kernels.size("head_size")),
        np.log2(kernels.size("num_heads") / kernels.size("num_kv_heads")),
        np.log2(kernels.size("num_kv_heads")),
        np.log2(time.base_seconds / time.seconds), np.log2(time.block_seconds / time.seconds),
        np.log2(time.traffic_seconds / time.seconds), np.log2(time.vector_over_matrix),
        np.log2(time.waves), time.waves / np.ceil(time.waves), np.log2(time.splits),
        np.log2(work.traffic_bytes / figures.l2_bytes),
    )  # fmt: skip
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def _is_narrow(formats: Objects) -> Flags:
    """Which formats have at most eight bits."""
    return np.array([ARITHMETIC[word].bits <= 8 for word in formats.tolist()], dtype=bool)
