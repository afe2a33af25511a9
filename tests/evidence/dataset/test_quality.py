"""Which measurements are kept: bounds by hand on one device, repeats, and the faults of single tables.

The device does 1 TFLOP/s in fp32 and 10 in half precision, moves 100 GB/s, caches 4 MiB, launches in 1 µs.
"""

from __future__ import annotations

from typing import Any

import hand_made as made
import pytest
from hand_made import read
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import made_up_device
from perfcast.core.dtype import DType
from perfcast.evidence.dataset.measurements import Measurements
from perfcast.evidence.dataset.quality import FLOOR_FRACTION, PEAK_TOLERANCE, judge, peak_flops_per_second

DEVICE = made_up_device()
DEVICES = dict.fromkeys(("t4", "p4", "h100-sxm", "b200", "l40s"), DEVICE)


def verdicts(stem: str, *rows: dict[str, Any]) -> list[str]:
    (measurements,), rejected = read(stem, *rows)
    assert len(rejected) == 0
    return judge(measurements, DEVICES).tolist()


def product(milliseconds: float, **changes: Any) -> dict[str, Any]:
    """1000³ in fp32: 2 ms at the device's peak."""
    return made.MATMUL | {"M": 1000, "N": 1000, "K": 1000, "latency_ms": milliseconds} | changes


@pytest.mark.parametrize(
    ("milliseconds", "verdict"), [(2.0, ""), (1.95, ""), (1.85, "above peak"), (500, "")]
)
def test_a_product_may_not_beat_the_peak_of_its_format(milliseconds: float, verdict: str):
    assert verdicts("matmul_train", product(milliseconds)) == [verdict]


def test_the_tolerance_is_where_the_verdict_turns():
    at_peak = 2.0 / PEAK_TOLERANCE
    rows = product(at_peak * 1.001), product(at_peak * 0.999, M=1001, N=1000)
    assert verdicts("matmul_train", *rows) == ["", "above peak"]


@pytest.mark.parametrize(("milliseconds", "verdict"), [(1.16, ""), (1.0, "above peak")])
def test_memory_bounds_what_does_not_fit_the_cache(milliseconds: float, verdict: str):
    # 3 tensors of 40 MB less 4 MiB of cache, at 100 GB/s: 1.158 ms.
    rows = made.VECTOR | {"B": 1000, "H": 10_000, "latency_ms": milliseconds}
    assert verdicts("vector_train", rows) == [verdict]


@pytest.mark.parametrize(("microseconds", "verdict"), [(1.0, ""), (0.6, ""), (0.4, "below launch floor")])
def test_what_fits_the_cache_is_bound_by_the_launch_alone(microseconds: float, verdict: str):
    assert FLOOR_FRACTION == 0.5
    rows = made.VECTOR | {"B": 100, "H": 1000, "latency_ms": microseconds / 1e3}
    assert verdicts("vector_train", rows) == [verdict]


def test_a_device_that_is_not_given_cannot_be_judged():
    assert verdicts("matmul_train", product(2.0, device="Some GPU"), product(2.0)) == ["unknown device", ""]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_of_equal_calls_the_lower_median_is_kept(times: list[int]):
    (measurements,), _ = read("matmul_train", *(made.MATMUL | {"latency_ms": float(time)} for time in times))
    verdict = judge(measurements, DEVICES)
    assert set(verdict) <= {"", "duplicate"}
    assert measurements.seconds[verdict == ""] == pytest.approx([sorted(times)[(len(times) - 1) // 2] / 1e3])


@pytest.mark.parametrize("change", [{"M": 101}, {"op": "bmm"}, {"op": "bmm", "device": "Tesla P4"}])
def test_calls_that_differ_in_anything_are_no_duplicates(change: dict[str, Any]):
    assert verdicts("matmul_train", made.MATMUL, made.MATMUL | change) == ["", ""]


def test_frameworks_are_no_duplicates_of_each_other():
    assert verdicts("gemm_h100_sxm", made.GEMM) == ["", "", ""]


def test_a_faulty_repeat_takes_no_part_in_the_median():
    rows = [product(t) for t in (0.5, 2.5, 3.0)]
    assert verdicts("matmul_train", *rows) == ["above peak", "", "duplicate"]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 1000), st.floats(0.001, 100))
def test_a_slower_call_is_never_above_peak_where_a_faster_one_is_not(m: int, milliseconds: float):
    fast, slow = verdicts("matmul_train", product(milliseconds, M=m), product(2 * milliseconds, M=m, B=1))
    assert not (slow == "above peak" and fast != "above peak")


def by_framework(measurements: Measurements) -> dict[str, str]:
    verdict = judge(measurements, DEVICES).tolist()
    return dict(zip(measurements.kernels.word("framework").tolist(), verdict, strict=True))


@pytest.mark.parametrize(
    ("changes", "faulty"),
    [({}, True), ({"m": 3000}, False), ({"dtype": "fp8"}, False)],
    ids=["large", "small", "fp8"],
)
def test_large_bf16_products_of_vllm_are_a_known_fault(changes: dict[str, Any], faulty: bool):
    # 4000 × 4000 × 4000 are 128 GFLOP, with 3000 rows 96.
    row = made.GEMM | {"m": 4000, "n": 4000, "k": 4000, "sglang_ms": 90.0, "trtllm_ms": 91.0, "vllm_ms": 92.0}
    (measurements,), _ = read("gemm_h100_sxm", row | changes)
    found = by_framework(measurements)
    assert found["vllm"].startswith("known fault: vLLM") == faulty
    assert found["sglang"] == found["trtllm"] == ""


@pytest.mark.parametrize(
    ("stem", "device", "faulty"),
    [
        ("linear_test", "Tesla P4", True),
        ("linear_test", "Tesla T4", False),
        ("matmul_train", "Tesla P4", True),
        ("matmul_train", "Tesla T4", False),
    ],
)
def test_linear_layers_are_a_known_fault_on_the_p4(stem: str, device: str, faulty: bool):
    (verdict,) = verdicts(stem, product(5.0, device=device))
    assert verdict.startswith("known fault: two tables of linear layers") == faulty


@pytest.mark.parametrize(("framework", "faulty"), [("vllm", True), ("sglang", True), ("trtllm", False)])
def test_a_scale_computed_by_difference_is_a_known_fault(framework: str, faulty: bool):
    (verdict,) = verdicts("quant_compute_scale", made.QUANTIZATION | {"framework": framework})
    assert verdict.startswith("known fault: the scale") == faulty


@pytest.mark.parametrize(
    ("framework", "num_heads", "kernel", "faulty"),
    [
        ("sglang", 16, "causal_conv1d_fn", True),
        ("trtllm", 16, "causal_conv1d_fn", True),
        ("vllm", 16, "causal_conv1d_fn", False),
        ("sglang", 8, "causal_conv1d_fn", False),
        ("sglang", 16, "chunk_gated_delta_rule", False),
    ],
)
def test_the_convolution_of_an_unsplit_gated_delta_net_is_a_known_fault(
    framework: str, num_heads: int, kernel: str, faulty: bool
):
    row = made.GDN | {"framework": framework, "num_k_heads": num_heads, "kernel_source": kernel}
    (verdict,) = verdicts("gdn", row)
    assert verdict.startswith("known fault: the convolution") == faulty


def test_a_device_without_a_format_computes_in_a_wider_one():
    assert peak_flops_per_second(DEVICE, DType.BF16) == 10e12
    assert peak_flops_per_second(DEVICE, DType.FP4) == 10e12
    assert peak_flops_per_second(DEVICE, DType.FP32) == 1e12, "TF32 is off"
    assert peak_flops_per_second(DEVICE, DType.TF32) == 5e12


@pytest.mark.parametrize(("cache", "verdict"), [("fp8", ""), ("bfloat16", "above peak")])
def test_attention_over_an_fp8_cache_may_multiply_in_fp8(cache: str, verdict: str):
    # 16 queries of 8 heads see 4096 keys, less 120 that are masked: at 10 TFLOP/s twice the time given.
    flops = 2 * 2 * 8 * (16 * 4096 - 120) * (64 + 64)
    peaks = {DType.BF16: 10e12, DType.FP8: 20e12}
    device = made_up_device(memory_bytes_per_second=1e15, matrix_flops_per_second=peaks)
    row = made.ATTENTION | {"step": 4080, "kv_cache_dtype": cache, "median_ms": flops / 20e12 * 1e3}
    (measurements,), _ = read("attention_context_l40s", row)
    assert judge(measurements, {"l40s": device}).tolist() == [verdict]
