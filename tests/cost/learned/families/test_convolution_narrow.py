"""The made-up device: 100 multiprocessors at 1 GHz, 1 TB/s, a cache of 10 MB, 100 TFLOP/s in 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import made_up_device
from perfcast.core.convolution import square_sizes
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.families import convolution_narrow as narrow
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures, collect_figures

USUAL = {
    "batch": 64, "c_in": 64, "c_out": 64, "groups": 1, "has_bias": 0, "operation": "convolution",
    "memory_format": "channels_last", "dtype": "fp16", "framework": "pytorch",
}  # fmt: skip


def calls(size: int = 28, taps: int = 3, stride: int = 1, **changes: object) -> KernelTable:
    sizes = square_sizes(size, taps, stride, taps // 2)
    return build_kernel_table(KernelFamily.CONVOLUTION, 1, **(USUAL | sizes | changes))


def figures() -> Figures:
    device = made_up_device(
        num_sms=100, clock_hertz=1e9, l2_bytes=10**7, memory_bytes_per_second=1e12,
        vector_flops_per_second={DType.FP32: 1e13},
        matrix_flops_per_second={DType.FP16: 1e14, DType.BF16: 1e14, DType.TF32: 5e13},
    )  # fmt: skip
    return collect_figures([device], np.zeros(1, np.int64), np.array(["fp16"], dtype=object))


def parts(**changes: object) -> dict[str, float]:
    table = calls(**changes)
    found = narrow.time_parts(table, figures(), narrow.derive_shapes(table))
    return {name: float(values[0]) for name, values in found.items()}


def describe(**changes: object) -> Physics:
    return narrow.describe(calls(**changes), figures())


def test_a_dense_convolution_in_channels_last_is_a_product_alone():
    assert parts().keys() == {"dense.forward.n"}
    assert parts(taps=1).keys() == {"dense.forward.1"}


def test_contiguous_images_are_copied_there_and_back():
    # input and output of 64 · 64 · 28² · 2 bytes, each read and written, of which the cache keeps a part
    traffic = 2 * 64 * 64 * 28**2 * 2
    share = (1 - 0.9 * 1e7 / (1e7 + traffic)) / 0.9
    layout = parts(memory_format="contiguous")["layout.forward"]
    assert layout == pytest.approx(2 * traffic / 1e12 * share)


def test_images_of_three_channels_are_padded_to_eight():
    assert "padding" in parts(c_in=3)
    assert "padding" not in parts(c_in=8)
    assert parts(c_in=3)["dense.forward.odd"] == pytest.approx(parts(c_in=8)["dense.forward.n"], rel=0.1)


def test_a_backward_has_both_gradients():
    assert parts(operation="convolution_backward").keys() == {"dense.data.n", "dense.weight.n"}
    assert parts(operation="convolution_weight").keys() == {"dense.weight.n"}


def test_a_bias_is_added_by_a_kernel_of_its_own_and_its_gradient_summed():
    assert "bias.forward" in parts(has_bias=1)
    assert "bias.weight" in parts(has_bias=1, operation="convolution_backward")
    assert "bias.weight" not in parts(has_bias=1, operation="convolution_data")


def test_a_depthwise_convolution_is_no_product():
    found = parts(groups=64)
    assert found.keys() == {"depthwise.nhwc.forward.traffic", "depthwise.nhwc.forward.macs"}
    # 9 multiply-adds for each of 64 · 64 · 28² outputs, 64 a cycle on each of 100 multiprocessors
    assert found["depthwise.nhwc.forward.macs"] == pytest.approx(9 * 64 * 64 * 28**2 / (64 * 1e11))


def test_narrow_groups_are_bundled_and_the_zeros_between_them_multiplied():
    grouped, dense = parts(groups=16)["grouped.nhwc.forward.narrow"], parts(groups=1)["dense.forward.n"]
    assert dense / 16 < grouped < dense


def test_a_filter_larger_than_its_padded_input_is_refused():
    with pytest.raises(ValueError, match="1 kernels are larger"):
        narrow.derive_shapes(calls(size=2, taps=7, padding_height=0, padding_width=0))


drawn = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 256), "c_in": st.integers(1, 64), "c_out": st.integers(1, 64),
        "size": st.integers(7, 64), "taps": st.sampled_from([1, 3, 5, 7]), "stride": st.integers(1, 2),
        "operation": st.sampled_from(list(narrow.OPERATIONS)), "has_bias": st.integers(0, 1),
        "memory_format": st.sampled_from(["contiguous", "channels_last"]),
    }
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(drawn, st.sampled_from([1, 2, 4]))
def test_no_estimate_is_below_the_roofline(changes, groups):
    channels = {name: changes[name] * groups for name in ("c_in", "c_out")}
    physics = describe(**(changes | channels | {"groups": groups}))
    assert np.isfinite(physics.seconds).all()
    assert (physics.seconds >= np.maximum(physics.compute_seconds, physics.memory_seconds)).all()
    assert physics.features.shape == (1, len(narrow.feature_names))


@settings(max_examples=80, deadline=None)
@given(drawn, st.sampled_from(["batch", "c_in", "c_out"]), st.integers(2, 8))
def test_twice_the_images_or_channels_never_take_less(changes, name, factor):
    # channels in whole vectors: of others, an odd number is padded to one
    changes |= {"c_in": 8 * changes["c_in"], "c_out": 8 * changes["c_out"]}
    more = describe(**(changes | {name: changes[name] * factor}))
    assert more.seconds[0] >= describe(**changes).seconds[0] * (1 - 1e-3)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 32), st.integers(1, 7), st.sampled_from([1, 3]))
def test_whole_vectors_of_channels_are_never_slower_than_what_is_padded_to_them(vectors, missing, taps):
    aligned, odd = describe(c_in=8 * vectors, taps=taps), describe(c_in=8 * vectors - missing, taps=taps)
    assert aligned.seconds[0] <= odd.seconds[0] * 1.01
