"""The made-up device: 100 multiprocessors at 1 GHz, 1 TB/s, a cache of 10 MB, 10 TFLOP/s in fp32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import made_up_device
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.families import row_operations, rows
from perfcast.cost.learned.families.row_operations import STREAMING, Pattern, collect_behaviours
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures, collect_figures

OPERATIONS = (*row_operations.MEASURED, *row_operations.RESEMBLING, "no_such_kernel")
WORDS = {"dtype": "bf16", "framework": "vllm"}


def calls(operation: str, num_rows: float, row_length: float, **changes: object) -> KernelTable:
    one_tensor = 4.0 * num_rows * row_length
    columns = {"read_bytes": one_tensor, "written_bytes": one_tensor, **WORDS, **changes}
    return build_kernel_table(
        KernelFamily.ROWS, 1, operation=operation, num_rows=num_rows, row_length=row_length, **columns
    )


def cold(kernels: KernelTable) -> KernelTable:
    return KernelTable(kernels.family, kernels.columns, is_cold=True)


def figures(**changes: object) -> Figures:
    device = made_up_device(
        **{
            "num_sms": 100, "clock_hertz": 1e9, "l2_bytes": 10**7, "memory_bytes_per_second": 1e12,
            "vector_flops_per_second": {DType.FP32: 1e13}, "year": 2016, **changes,
        }
    )  # fmt: skip
    return collect_figures([device], np.zeros(1, np.int64), np.array(["bf16"], dtype=object))


def describe(operation: str, num_rows: float, row_length: float, **changes: object) -> Physics:
    return rows.describe(calls(operation, num_rows, row_length, **changes), figures())


def blocks(operation: str, row_length: float) -> rows.Blocks:
    kernels = calls(operation, 64, row_length)
    return rows.deal_rows(kernels, figures(), collect_behaviours(kernels))


def time(operation: str, num_rows: float, row_length: float, **changes: object) -> rows.RowTime:
    kernels = calls(operation, num_rows, row_length)
    where, behaviours = figures(**changes), collect_behaviours(kernels)
    return rows.time_rows(kernels, where, behaviours, rows.deal_rows(kernels, where, behaviours))


def test_a_large_copy_takes_its_bytes_at_the_achieved_bandwidth():
    # 2 × 4 GB at 0.77 of 1 TB/s are 10.39 ms; 10⁹ elements · 0.031 cycles over 10¹¹ cycles/s, 0.31 ms
    streamed = time("copy", 1e6, 1000)
    assert streamed.traffic_seconds == pytest.approx(8e9 / 0.77e12, rel=1e-6)
    assert streamed.arithmetic_seconds == pytest.approx(0.31e-3)
    assert streamed.seconds == pytest.approx(10.39e-3, rel=0.01)


def test_a_tiny_kernel_takes_its_base():
    assert describe("copy", 1, 32).seconds == pytest.approx(STREAMING.base_seconds, rel=0.01)


def test_the_host_bounds_small_kernels_that_pytorch_starts_one_by_one():
    assert describe("add", 1, 32, dtype="fp32", framework="pytorch").seconds > 3e-5
    assert describe("add", 1, 32, dtype="fp16", framework="pytorch").seconds < 3e-6


def test_a_tensor_that_fits_the_cache_is_read_from_it_if_the_kernel_is_repeated():
    repeated = calls("copy", 512, 1024)
    warm = rows.describe(repeated, figures()).seconds
    assert warm < rows.describe(cold(repeated), figures()).seconds


def test_what_exceeds_the_cache_by_far_is_as_slow_repeated_as_not():
    repeated = calls("copy", 1e6, 1024)
    alone = rows.describe(repeated, figures()).seconds
    assert rows.describe(cold(repeated), figures()).seconds == pytest.approx(alone, rel=1e-3)


def test_layer_norm_reads_rows_a_second_time_only_where_those_in_flight_leave_the_cache():
    # 128 threads a block: 16 rows on each of 100 multiprocessors; 1600 rows of 1 KB fit 10 MB, not of 64 KB
    assert time("ln", 1e6, 256).miss == pytest.approx(0, abs=1e-3)
    spilled = time("ln", 1e6, 16384)
    assert spilled.miss == pytest.approx(1, abs=1e-3)
    assert spilled.traffic_seconds == pytest.approx(1.5 * 8 * 16384e6 / 0.77e12, rel=1e-3)


def test_statistics_over_all_rows_read_the_whole_tensor_again():
    # batch norm: 2 × 4 GB, and 4 GB again; 2 × 4 MB stay in a cache of 10 MB
    assert time("batch_norm", 1e6, 1000).traffic_seconds == pytest.approx(12e9 / 0.77e12, rel=1e-3)
    assert time("batch_norm", 1e3, 1000).miss < 0.01


def test_softmax_beyond_a_warp_reads_three_times():
    long = time("softmax", 1e6, 65536)
    assert long.traffic_seconds == pytest.approx(2 * 8 * 65536e6 / 0.77e12, rel=1e-3)
    short = time("softmax", 1e6, 1024)
    assert short.traffic_seconds == pytest.approx(8 * 1024e6 / 0.77e12, rel=1e-3)


def test_softmax_takes_whole_steps_of_sixteen_bytes_and_the_rest_element_by_element():
    # 1280 elements: 256 threads of 4 elements, 256 left over, one for each thread; 2048 are two whole steps
    uneven, even = blocks("softmax", 1280), blocks("softmax", 2048)
    assert (uneven.whole_steps[0], uneven.rest_steps[0]) == (1, 1)
    assert (even.whole_steps[0], even.rest_steps[0]) == (2, 0)
    assert uneven.in_flight[0] == even.in_flight[0] == 800


def test_a_warp_works_on_a_power_of_two_of_elements():
    assert time("softmax", 1e5, 513).arithmetic_seconds == time("softmax", 1e5, 1024).arithmetic_seconds


def test_layer_norm_waits_for_every_step_of_its_block():
    # 1600 rows in flight at 7430 cycles and 370 a step of 512 elements; 3200 rows take two turns
    one, two = time("ln", 1600, 512), time("ln", 3200, 1024)
    assert one.waiting_seconds == pytest.approx(7800e-9)
    assert two.waiting_seconds == pytest.approx(2 * 8170e-9)


def test_a_strided_copy_moves_a_sector_for_each_element_of_one_side():
    # half the traffic at 32 bytes for 8: 1 + 0.5 · 3
    dense, strided = time("copy", 1e6, 1000), time("copy_strided", 1e6, 1000)
    assert strided.traffic_seconds / dense.traffic_seconds == pytest.approx(2.5, rel=1e-3)


def test_stacked_memory_is_told_by_bandwidth_for_each_multiprocessor():
    assert rows.memory_is_stacked(figures(memory_bytes_per_second=2e12, year=2020)) > 0.99
    assert rows.memory_is_stacked(figures(memory_bytes_per_second=5e11, year=2020)) < 0.01
    assert rows.memory_is_stacked(figures(memory_bytes_per_second=2e12, year=2016)) == 0


def test_a_cache_in_two_halves_holds_about_half_of_the_rows_in_flight():
    whole = time("ln", 1e6, 4096, l2_bytes=4 * 10**7, memory_bytes_per_second=5e11, year=2020)
    split = time("ln", 1e6, 4096, l2_bytes=4 * 10**7, memory_bytes_per_second=2e12, year=2020)
    assert whole.miss < 0.2 < 0.5 < split.miss


def test_an_unknown_operation_streams():
    assert describe("no_such_kernel", 1e5, 512).seconds == describe("copy", 1e5, 512).seconds


def test_a_library_with_a_kernel_of_its_own_has_constants_of_its_own():
    slow = describe("quant_scale_matrix", 1e4, 4096, framework="sglang").seconds
    assert slow > 2 * describe("quant_scale_matrix", 1e4, 4096, framework="trtllm").seconds


def test_a_backward_of_softmax_reads_its_rows_once_more_and_the_forward_twice():
    forward = collect_behaviours(calls("softmax", 8, 8))
    backward = collect_behaviours(calls("softmax_backward", 8, 8))
    assert forward.pattern[0] == backward.pattern[0] == Pattern.SOFTMAX
    assert (forward.extra_reads[0], backward.extra_reads[0]) == (2, 1)


def test_pytorchs_backward_of_layer_norm_reads_both_tensors_in_two_kernels_and_a_fused_one_in_one():
    # 10⁹ elements: gradient and input read (8 bytes), result written (4), both read again (8): 20 for 12
    read, written = 8.0e9, 4.0e9
    kernels = [calls(name, 1e6, 1000, read_bytes=read, written_bytes=written)
               for name in ("ln_backward", "layer_norm_backward")]  # fmt: skip
    where = figures(l2_bytes=10**8)
    fused, plain = (
        rows.time_rows(k, where, collect_behaviours(k), rows.deal_rows(k, where, collect_behaviours(k)))
        for k in kernels
    )
    assert plain.traffic_seconds / fused.traffic_seconds == pytest.approx(20 / 12, rel=0.01)
    assert plain.base_seconds == 2 * fused.base_seconds


def test_a_draw_takes_integer_instructions_where_memory_is_fast():
    # 10⁹ elements · 0.31 cycles over 10¹¹ cycles/s are 3.1 ms, a copy's 0.31
    assert time("random", 1e6, 1000).arithmetic_seconds == pytest.approx(3.1e-3)
    assert time("copy", 1e6, 1000).arithmetic_seconds == pytest.approx(0.31e-3)


def test_the_second_kernel_of_a_small_layer_norm_finds_its_operands_in_the_cache():
    kernels = calls("layer_norm_backward", 1000, 100, read_bytes=8e5, written_bytes=4e5)
    where, behaviours = figures(), collect_behaviours(kernels)
    found = rows.time_rows(cold(kernels), where, behaviours, rows.deal_rows(kernels, where, behaviours))
    assert found.traffic_seconds < 20e5 / 0.77e12


def test_a_mask_that_many_heads_share_is_read_by_each_of_them_unless_the_cache_holds_it():
    # 64 heads of 4·10⁶ scores and one mask: 8.25 bytes a score, or 12 where each head reads it from memory
    heads, mask = 64, 4e6
    columns = {"read_bytes": 4 * (heads + 1) * mask, "written_bytes": 4 * heads * mask}
    kernels = calls("elementwise_broadcast", heads, mask, **columns)
    behaviours = collect_behaviours(kernels)
    small, large = (
        rows.time_rows(kernels, where, behaviours, rows.deal_rows(kernels, where, behaviours)).traffic_seconds
        for where in (figures(), figures(l2_bytes=4 * 10**8))
    )
    assert small / large == pytest.approx((2 * heads + 1 + heads - 1) / (2 * heads + 1), rel=0.01)


def test_whole_rows_are_added_to_a_filled_table_of_embeddings():
    # 10⁹ bytes of table and 3 · 10⁷ of rows stream
    moved = {"read_bytes": 2e7, "written_bytes": 1.01e9}
    table = describe("embedding_backward", 250_000, 1000, **moved).seconds
    assert table == pytest.approx(describe("copy", 250_000, 1000, **moved).seconds, rel=0.01)


operations = st.sampled_from(sorted(set(OPERATIONS)))
words = st.sampled_from(
    [("fp32", "pytorch"), ("bf16", "pytorch"), ("fp8", "sglang"), ("bf16", "vllm"), ("fp16", "none")]
)
num_rows = st.floats(1, 1e7)
row_length = st.integers(1, 70_000).map(float)


@settings(max_examples=150, deadline=None)
@given(operations, num_rows, row_length, words, st.booleans(), st.floats(0, 8), st.floats(0.25, 8))
def test_every_estimate_is_finite_and_not_below_the_roofline(
    operation, count, length, names, is_cold, read, written
):
    kernels = calls(
        operation, count, length, dtype=names[0], framework=names[1],
        read_bytes=read * count * length, written_bytes=written * count * length,
    )  # fmt: skip
    physics = rows.describe(cold(kernels) if is_cold else kernels, figures())
    assert np.isfinite(physics.seconds).all()
    assert (physics.seconds > 0).all()
    assert (physics.seconds >= np.maximum(physics.compute_seconds, physics.memory_seconds)).all()
    assert physics.features.shape == (1, len(rows.feature_names))
    assert np.isfinite(physics.features).all()


@settings(max_examples=150, deadline=None)
@given(operations, num_rows, row_length, words, st.floats(1.01, 100))
def test_more_rows_never_take_less(operation, count, length, names, factor):
    some = describe(operation, count, length, dtype=names[0], framework=names[1])
    more = describe(operation, factor * count, length, dtype=names[0], framework=names[1])
    assert more.seconds[0] >= some.seconds[0] * (1 - 1e-9)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["add", "copy", "optimizer", "rms_norm", "embedding"]), num_rows, row_length)
def test_twice_the_bytes_never_take_less(operation, count, length):
    one_tensor = 2.0 * count * length
    once = describe(operation, count, length, read_bytes=one_tensor, written_bytes=one_tensor)
    twice = describe(operation, count, length, read_bytes=2 * one_tensor, written_bytes=2 * one_tensor)
    assert twice.seconds[0] >= once.seconds[0] * (1 - 1e-9)


def test_a_table_is_priced_row_by_row():
    table = build_kernel_table(
        KernelFamily.ROWS, 3, operation=["add", "ln", "softmax"], num_rows=[8.0, 4096.0, 1e5],
        row_length=[64.0, 1024.0, 3000.0], read_bytes=[1e3, 1e7, 1e9], written_bytes=[1e3, 1e7, 1e9],
        dtype="fp32", framework="pytorch",
    )  # fmt: skip
    one = figures()
    together = rows.describe(table, one.take(np.zeros(3, np.int64)))
    for index in range(3):
        alone = rows.describe(table.take(np.array([index])), one)
        assert together.seconds[index] == pytest.approx(alone.seconds[0], rel=1e-12)


def test_an_empty_table_has_no_seconds():
    nothing = np.zeros(0, np.int64)
    assert rows.describe(calls("add", 1, 1).take(nothing), figures().take(nothing)).seconds.shape == (0,)
