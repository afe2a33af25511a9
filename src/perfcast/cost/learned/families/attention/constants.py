"""Constants of the attention kernels of each framework, and how they were fitted."""

from __future__ import annotations

from perfcast.cost.learned.families.attention.time import AttentionConstants

#: Frameworks with constants of their own; any other runs FlashAttention's kernels, as the last one does.
FRAMEWORKS = ("sglang", "trtllm", "vllm")

# Least squares of sqrt(|log(measured / estimate)|), each architecture with the same weight, over 2,000 calls
# per device and framework on A100, H100, H200, L40S, B200 and GB200 (prefill for tiles, decoding for split
# keys), each logarithm of a constant held near the value that the hardware suggests by 0.12 of its square.
# Set by hand: ``memory_efficiency``, ``core_bytes_per_cycle`` of tiles, ``overlap_power`` of split keys, and
# the constants that tiles do not use; ``roof_power`` was kept at 1 or more.
_TILES = (
    AttentionConstants(
        base_seconds=4.7e-06, base_cycles=8470.0, block_cycles=4740.0, group_cycles=0.0,
        vector_cycles=0.101, element_cycles=0.0, widen_cycles=0.0, overlap_power=2.04,
        matrix_efficiency=0.677, min_rows=32.0, reduction_cycles=0.0, passes=1.58, memory_efficiency=0.92,
        cache_bytes_per_cycle=20.4, core_bytes_per_cycle=48.0, cache_share=0.927, roof_power=1.22,
    ),
    AttentionConstants(
        base_seconds=5.38e-06, base_cycles=11600.0, block_cycles=5920.0, group_cycles=0.0,
        vector_cycles=0.0863, element_cycles=0.0, widen_cycles=0.0, overlap_power=1.89,
        matrix_efficiency=0.538, min_rows=32.0, reduction_cycles=0.0, passes=2.08, memory_efficiency=0.92,
        cache_bytes_per_cycle=17.0, core_bytes_per_cycle=48.0, cache_share=0.931, roof_power=1.0,
    ),
    AttentionConstants(
        base_seconds=3.47e-06, base_cycles=7950.0, block_cycles=5980.0, group_cycles=0.0,
        vector_cycles=0.0688, element_cycles=0.0, widen_cycles=0.0, overlap_power=2.25,
        matrix_efficiency=0.604, min_rows=32.0, reduction_cycles=0.0, passes=1.33, memory_efficiency=0.92,
        cache_bytes_per_cycle=12.1, core_bytes_per_cycle=48.0, cache_share=1.17, roof_power=1.21,
    ),
)  # fmt: skip
_SPLIT_KEYS = (
    AttentionConstants(
        base_seconds=1.6e-06, base_cycles=13400.0, block_cycles=2880.0, group_cycles=881.0,
        vector_cycles=0.0371, element_cycles=0.00939, widen_cycles=0.01, overlap_power=1.5,
        matrix_efficiency=0.687, min_rows=46.1, reduction_cycles=9830.0, passes=1.0,
        memory_efficiency=0.92, cache_bytes_per_cycle=36.8, core_bytes_per_cycle=52.0, cache_share=0.968,
        roof_power=1.23,
    ),
    AttentionConstants(
        base_seconds=2.1e-06, base_cycles=10500.0, block_cycles=2050.0, group_cycles=1050.0,
        vector_cycles=0.0341, element_cycles=0.0335, widen_cycles=0.00912, overlap_power=1.5,
        matrix_efficiency=0.487, min_rows=54.7, reduction_cycles=8320.0, passes=1.0,
        memory_efficiency=0.92, cache_bytes_per_cycle=33.7, core_bytes_per_cycle=48.4, cache_share=1.6,
        roof_power=2.11,
    ),
    AttentionConstants(
        base_seconds=1.92e-06, base_cycles=12300.0, block_cycles=1840.0, group_cycles=1150.0,
        vector_cycles=0.0325, element_cycles=0.00802, widen_cycles=0.00864, overlap_power=1.5,
        matrix_efficiency=0.414, min_rows=54.5, reduction_cycles=6070.0, passes=1.0,
        memory_efficiency=0.92, cache_bytes_per_cycle=42.5, core_bytes_per_cycle=49.5, cache_share=0.87,
        roof_power=2.04,
    ),
)  # fmt: skip

#: vLLM's latent attention is a module that its host launches kernel by kernel: 170 µs on the hosts of H100
#: and H200, 300 to 345 µs on those of A100 and L40S, whatever the sizes; between them.
LATENT_MODULE_SECONDS = 2.4e-4

#: Prefill kernels of each framework, then kernels that split the keys.
KERNEL_CONSTANTS: tuple[AttentionConstants, ...] = (*_TILES, *_SPLIT_KEYS)
