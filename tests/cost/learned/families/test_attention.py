"""The made-up device: 100 multiprocessors at 1 GHz, 100 TFLOP/s in 16 bits, 1 TB/s, a cache of 10 MB."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import made_up_device
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.families.attention import physics as attention
from perfcast.cost.learned.families.attention.constants import (
    FRAMEWORKS,
    KERNEL_CONSTANTS,
    LATENT_MODULE_SECONDS,
)
from perfcast.cost.learned.families.attention.time import AttentionTime, join_overlapping, time_attention
from perfcast.cost.learned.families.attention.work import OPERATIONS, count_visible_keys, describe_work
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures, collect_figures
from perfcast.errors import UnknownNameError

SIZES = {
    "batch": 1, "num_queries": 1024, "num_keys": 1024, "num_heads": 8, "num_kv_heads": 2,
    "head_size": 128, "value_head_size": 128, "window": 0, "causal": 1,
}  # fmt: skip
WORDS = {"operation": "context", "dtype": "bf16", "kv_dtype": "bf16", "framework": "vllm"}


def calls(**changes: object) -> KernelTable:
    columns = SIZES | WORDS | changes
    return build_kernel_table(KernelFamily.ATTENTION, 1, **columns)


def figures(dtype: str = "bf16", **changes: float) -> Figures:
    rates = {DType.BF16: 1e14, DType.FP8: 2e14}
    device = made_up_device(
        num_sms=100, clock_hertz=1e9, l2_bytes=10**7, memory_bytes_per_second=1e12,
        vector_flops_per_second={DType.FP32: 1e13}, matrix_flops_per_second=rates,
    )  # fmt: skip
    found = collect_figures([device], np.zeros(1, np.int64), np.array([dtype], dtype=object))
    return replace(found, **{name: np.array([value]) for name, value in changes.items()})


def describe(**changes: object) -> Physics:
    return attention.describe(calls(**changes), figures(str(changes.get("dtype", "bf16"))))


def time(**changes: object) -> AttentionTime:
    constants = KERNEL_CONSTANTS[FRAMEWORKS.index("vllm")]
    return time_attention(describe_work(calls(**changes)), figures(), constants)


def test_a_causal_query_sees_the_keys_up_to_itself():
    # 4 queries after 2 cached keys see 3 + 4 + 5 + 6 = 18; a window of 4 leaves 3 + 4 + 4 + 4 = 15
    four, six, none, yes = (np.array([float(x)]) for x in (4, 6, 0, 1))
    assert count_visible_keys(four, six, none, yes) == 18
    assert count_visible_keys(four, six, four, yes) == 15
    assert count_visible_keys(four, six, none, none) == 24


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 50))
def test_visible_keys_agree_with_counting(queries: int, cached: int, window: int):
    keys = cached + queries
    seen = sum(min(cached + i + 1, window or keys) for i in range(queries))
    columns = (np.array([float(x)]) for x in (queries, keys, window, 1))
    assert count_visible_keys(*columns) == seen


def test_causal_prefill_multiplies_half_the_square():
    # 1024 · 1025 / 2 pairs, 8 heads, 2 products of 128 multiply-adds: 8 · 524 800 · 2 · 256 flops
    work = describe_work(calls())
    assert work.flops == 8 * 524_800 * 2 * 256
    assert describe().compute_seconds == pytest.approx(8 * 524_800 * 2 * 256 / 1e14)


def test_backward_does_five_products_where_forward_does_two():
    forward, backward = (describe_work(calls(operation=op)) for op in ("context", "context_backward"))
    assert backward.flops == 2.5 * forward.flops
    assert describe(operation="context_backward").seconds > describe().seconds


def test_keys_in_eight_bits_are_half_the_bytes():
    # 4096 keys · 2 heads · 256 elements; the one query and output are 8 · 256 elements of 2 bytes
    decode = {"operation": "generation", "num_queries": 1, "num_keys": 4096}
    wide, narrow = (describe_work(calls(**decode, kv_dtype=kv)) for kv in ("bf16", "fp8"))
    outer = 8 * 256 * 2
    assert wide.traffic_bytes - outer == 4096 * 2 * 256 * 2
    assert narrow.traffic_bytes - outer == 4096 * 2 * 256


def test_a_window_limits_the_keys_that_decoding_reads():
    decode = {"operation": "generation", "num_queries": 1, "num_keys": 4096, "window": 128}
    assert describe_work(calls(**decode)).visible_keys == 128


def test_absorbed_latent_attention_reads_one_vector_per_key():
    # 1000 keys of 576 elements in 2 bytes; 128 queries of 576 and outputs of 512
    latent = describe_work(
        calls(
            operation="mla_generation", num_queries=1, num_keys=1000, num_heads=128, num_kv_heads=1,
            head_size=576, value_head_size=512,
        )
    )  # fmt: skip
    assert latent.traffic_bytes == 1000 * 576 * 2 + 128 * (576 + 512) * 2


def test_one_extra_tile_on_a_full_wave_costs_a_whole_wave():
    encoder = {"operation": "encoder", "causal": 0, "num_queries": 128, "num_keys": 128, "num_heads": 1}
    encoder["num_kv_heads"] = 1
    full, fuller = (time(**encoder, batch=batch) for batch in (100, 101))
    assert fuller.arithmetic_seconds == pytest.approx(2 * full.arithmetic_seconds)
    assert time(**encoder, batch=99).arithmetic_seconds == full.arithmetic_seconds


def test_one_long_sequence_waits_for_its_last_tile():
    # 16 tiles on 100 multiprocessors: the last one steps over all 2048 keys, on average 1088
    alone = time(num_queries=2048, num_keys=2048, num_heads=1, num_kv_heads=1)
    work = describe_work(calls(num_queries=2048, num_keys=2048, num_heads=1, num_kv_heads=1))
    assert (work.blocks, work.block_keys, work.longest_block_keys) == (16, 1088, 2048)
    assert alone.arithmetic_seconds > alone.block_seconds * 2


def test_decoding_one_sequence_splits_its_keys_over_the_device():
    # 2 key/value heads on 100 multiprocessors: 100 parts each, 2 blocks per multiprocessor
    one = {"operation": "generation", "num_queries": 1, "num_keys": 65_536}
    assert time(**one).splits == 100
    assert time(**one, batch=200).splits == 1


def test_exponentials_do_not_get_faster_with_the_matrix_units():
    work, constants = describe_work(calls(head_size=64, value_head_size=64)), KERNEL_CONSTANTS[0]
    slow, fast = (
        time_attention(work, figures(matrix_flops_per_second=rate), constants) for rate in (1e14, 1e17)
    )
    assert fast.vector_over_matrix == pytest.approx(1000 * slow.vector_over_matrix)
    assert fast.arithmetic_seconds > slow.arithmetic_seconds / 10


def test_parts_that_overlap_take_between_the_longer_and_the_sum():
    three, four = np.array([3.0]), np.array([4.0])
    assert join_overlapping(three, four, 1.0) == pytest.approx(7)
    assert join_overlapping(three, four, 2.0) == pytest.approx(5)


def test_what_fits_the_cache_is_read_faster():
    work = describe_work(calls(operation="generation", num_queries=1, num_keys=16_384, batch=2))
    constants = replace(KERNEL_CONSTANTS[-1], cache_bytes_per_cycle=100.0, core_bytes_per_cycle=1000.0)
    small, large = (time_attention(work, figures(l2_bytes=b), constants) for b in (1e7, 1e9))
    assert large.traffic_seconds < small.traffic_seconds / 5


def test_an_unknown_operation_is_refused_with_close_names():
    with pytest.raises(UnknownNameError, match="encoder"):
        describe(operation="encode")


def test_an_unknown_number_format_is_refused():
    with pytest.raises(UnknownNameError, match="fp7"):
        describe(kv_dtype="fp7")


def test_a_framework_without_constants_runs_like_flash_attention():
    assert describe(framework="pytorch").seconds == describe(framework="vllm").seconds


def test_a_module_that_the_host_launches_takes_its_time_at_any_size():
    latent = {"operation": "mla_context", "head_size": 192, "num_queries": 16, "num_keys": 16}
    assert describe(**latent, framework="vllm").seconds == LATENT_MODULE_SECONDS
    assert describe(**latent, framework="trtllm").seconds < 1e-4


def test_features_have_the_names_of_their_columns():
    physics = describe(framework="trtllm", kv_dtype="fp8", window=256)
    values = dict(zip(attention.feature_names, physics.features[0], strict=True))
    assert values["is_trtllm"] == values["has_narrow_keys"] == values["is_windowed"] == 1
    assert values["is_sglang"] == values["has_narrow_arithmetic"] == values["is_decoding"] == 0
    assert values["log_window_reach"] == 2
    assert values["log_group"] == 2


operations = st.sampled_from(sorted(OPERATIONS))
shapes = st.fixed_dictionaries(
    {
        "operation": operations,
        "framework": st.sampled_from([*FRAMEWORKS, "pytorch"]),
        "dtype": st.sampled_from(["bf16", "fp8", "fp32"]),
        "kv_dtype": st.sampled_from(["bf16", "fp8", "fp32"]),
        "batch": st.integers(1, 2048),
        "num_queries": st.integers(1, 20_000),
        "num_kv_heads": st.integers(1, 16),
        "window": st.sampled_from([0, 128, 4096]),
        "head_size": st.sampled_from([64, 128, 256, 576]),
        "causal": st.integers(0, 1),
    }
)


def with_keys(shape: dict[str, object], cached: int) -> dict[str, object]:
    """Decoding has one query; prefill as many as it has."""
    queries = 1 if OPERATIONS[str(shape["operation"])].decodes else shape["num_queries"]
    heads = {"num_heads": 4 * int(str(shape["num_kv_heads"])), "num_queries": queries}
    return shape | heads | {"num_keys": int(str(queries)) + cached}


@given(shapes, st.integers(0, 100_000))
@settings(max_examples=200, deadline=None)
def test_seconds_are_finite_positive_and_no_less_than_the_roofline(shape: dict[str, object], cached: int):
    physics = describe(**with_keys(shape, cached))
    assert np.isfinite(physics.features).all()
    assert 0 < physics.seconds < np.inf
    assert physics.seconds >= max(physics.compute_seconds, physics.memory_seconds)


@given(shapes, st.integers(1, 100_000))
@settings(max_examples=200, deadline=None)
def test_more_sequences_never_take_less_time(shape: dict[str, object], cached: int):
    shape = with_keys(shape, cached)
    twice = shape | {"batch": 2 * int(str(shape["batch"]))}
    assert describe(**twice).seconds >= describe(**shape).seconds * (1 - 1e-9)


@given(shapes, st.integers(1, 100_000))
@settings(max_examples=200, deadline=None)
def test_more_keys_never_take_less_time(shape: dict[str, object], cached: int):
    fewer, more = with_keys(shape, cached), with_keys(shape, 2 * cached)
    assert describe(**more).seconds >= describe(**fewer).seconds * (1 - 1e-9)
