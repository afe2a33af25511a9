"""The made-up device: 100 multiprocessors at 1 GHz, 1 TB/s, a cache of 10 MB, 10 TFLOP/s in fp32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import made_up_device
from perfcast.core.convolution import square_sizes
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.families import convolution
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures, collect_figures

SIZES = {"batch": 32, "c_in": 256, "c_out": 256, "groups": 1, "has_bias": 0}
SQUARE = {"kernel_size": 3, "input_size": 28, "stride": 1, "padding": 1}
WORDS = {
    "operation": "convolution", "dtype": "fp32", "framework": "none", "memory_format": "contiguous",
}  # fmt: skip


def calls(**changes: object) -> KernelTable:
    square = SQUARE | {name: changes.pop(name) for name in SQUARE if name in changes}
    sizes = square_sizes(square["input_size"], square["kernel_size"], square["stride"], square["padding"])
    return build_kernel_table(KernelFamily.CONVOLUTION, 1, **(SIZES | WORDS | sizes | changes))


def figures(dtype: str = "fp32") -> Figures:
    device = made_up_device(
        num_sms=100, clock_hertz=1e9, l2_bytes=10**7, memory_bytes_per_second=1e12,
        vector_flops_per_second={DType.FP32: 1e13}, matrix_flops_per_second={DType.BF16: 1e14},
    )  # fmt: skip
    return collect_figures([device], np.zeros(1, np.int64), np.array([dtype], dtype=object))


def describe(**changes: object) -> Physics:
    return convolution.describe(calls(**changes), figures(str(changes.get("dtype", "fp32"))))


def shapes(**changes: object) -> convolution.Shapes:
    return convolution.derive_shapes(calls(**changes), figures(str(changes.get("dtype", "fp32"))))


def algorithms(**changes: object) -> convolution.Algorithms:
    kernels, where = calls(**changes), figures(str(changes.get("dtype", "fp32")))
    return convolution.time_algorithms(kernels, where, convolution.derive_shapes(kernels, where))


def test_a_call_timed_alone_waits_for_the_host_and_one_of_a_step_does_not():
    alone = calls(framework="pytorch")
    base = describe(framework="pytorch").seconds - describe().seconds
    assert base == pytest.approx(152e-6 - 3e-6)
    in_step = KernelTable(alone.family, alone.columns, is_cold=True)
    assert convolution.describe(in_step, figures()).seconds == pytest.approx(describe().seconds)


def test_shapes_by_hand():
    # 7×7 with stride 2 and padding 3 over 224: 112 outputs an axis
    first = shapes(batch=2, c_in=3, c_out=64, kernel_size=7, input_size=224, stride=2, padding=3)
    assert first.outputs == 2 * 112**2
    assert first.flops == 2 * 2 * 112**2 * 64 * 3 * 49
    assert first.weight_bytes == 64 * 3 * 49 * 4
    assert not first.is_winograd


def test_squares_are_padded_up():
    # 5 outputs an axis need 3 × 3 squares of 2 and 2 × 2 squares of 4
    padded = shapes(batch=1, input_size=5)
    assert (padded.squares_of_2, padded.squares_of_4) == (9, 4)


def test_winograd_serves_3_by_3_with_stride_1_in_fp32_alone():
    assert np.isfinite(algorithms().spread)
    for changes in ({"kernel_size": 5}, {"stride": 2}, {"dtype": "bf16"}, {"groups": 2}):
        assert np.isinf(algorithms(**changes).fused), changes
        assert np.isinf(algorithms(**changes).spread), changes


def test_many_channels_are_fastest_spread_and_few_pixels_are_not():
    assert algorithms(batch=64).all.argmin() == 2
    assert algorithms(batch=1, c_in=8, c_out=16, input_size=14).all.argmin() != 2


def test_winograd_may_beat_the_peak_of_the_multiplications_it_saves_but_not_its_own():
    physics = describe(batch=64)
    flops = 2 * 64 * 28**2 * 256 * 256 * 9
    assert physics.compute_seconds == pytest.approx(flops / 4 / 1e13)
    assert physics.seconds > physics.compute_seconds


def test_matrix_units_are_faster_than_ordinary_arithmetic():
    assert describe(dtype="bf16").seconds < 0.5 * describe().seconds


def test_a_backward_pass_takes_two_convolutions():
    forward, backward = describe(), describe(operation="convolution_backward")
    base = describe(batch=1, c_in=1, c_out=1, input_size=1).seconds - algorithms(
        batch=1, c_in=1, c_out=1, input_size=1
    ).all.min(axis=0)
    assert backward.seconds - base == pytest.approx(2 * (forward.seconds - base))


def test_a_depthwise_convolution_is_computed_directly_instead_of_wasting_tiles():
    depthwise = algorithms(groups=256)
    assert depthwise.all.argmin() == 3
    # 9 multiply-adds for each of 32 · 256 · 28² outputs, at an eighth of 10 TFLOP/s
    assert depthwise.direct == pytest.approx(2 * 9 * 32 * 256 * 28**2 / 1.25e12)
    # of 1 × 1 in as many groups: input and output 32 · 256 · 28² · 4 bytes each, weights 1 KB, at 0.75 TB/s
    scaling = algorithms(groups=256, kernel_size=1, padding=0)
    assert scaling.direct == pytest.approx((2 * 32 * 256 * 28**2 * 4 + 1024) / 0.75e12)


def test_pytorch_in_fp32_has_the_launches_inside():
    tiny = {"batch": 1, "c_in": 1, "c_out": 1, "input_size": 1}
    assert describe(**tiny, framework="pytorch").seconds - describe(**tiny).seconds == pytest.approx(149e-6)


def test_a_kernel_larger_than_its_padded_input_is_refused():
    with pytest.raises(ValueError, match="1 kernels are larger"):
        describe(kernel_size=7, input_size=3, padding=0)


sizes = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 256), "c_in": st.integers(1, 64), "c_out": st.integers(1, 64),
        "kernel_size": st.sampled_from([1, 3, 5, 7]), "input_size": st.integers(7, 256),
        "stride": st.integers(1, 3), "padding": st.integers(0, 3), "groups": st.sampled_from([1, 2, 8]),
        "dtype": st.sampled_from(["fp32", "bf16"]), "framework": st.sampled_from(["pytorch", "none"]),
        "operation": st.sampled_from(["convolution", "convolution_backward"]),
    }
)  # fmt: skip


def in_groups(drawn: dict[str, object]) -> dict[str, object]:
    return drawn | {name: drawn[name] * drawn["groups"] for name in ("c_in", "c_out")}


@settings(max_examples=100, deadline=None)
@given(sizes)
def test_every_estimate_is_finite_and_not_below_the_roofline(drawn):
    physics = describe(**in_groups(drawn))
    assert np.isfinite(physics.seconds).all()
    assert (physics.seconds > 0).all()
    assert (physics.seconds >= np.maximum(physics.compute_seconds, physics.memory_seconds)).all()
    assert physics.features.shape == (1, len(convolution.feature_names))
    assert np.isfinite(physics.features).all()


@settings(max_examples=100, deadline=None)
@given(sizes, st.integers(2, 16))
def test_a_larger_batch_never_takes_less(drawn, factor):
    changes = in_groups(drawn)
    more = describe(**(changes | {"batch": changes["batch"] * factor}))
    assert more.seconds[0] >= describe(**changes).seconds[0] * (1 - 1e-4)
