from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import made_up_device
from made_up_kernels import describe, products
from perfcast.catalogs.devices import load_device_entries
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.families import products as family
from perfcast.cost.learned.families.tiles import Products
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import collect_figures

DEVICES = [entry.device for entry in load_device_entries().values()]
#: A format and a framework that it was measured in.
FORMATS = [
    ("fp32", "pytorch"),
    ("bf16", "sglang"),
    ("fp8", "trtllm"),
    ("int4_wo", "vllm"),
    ("fp16", "pytorch"),
]


def physics(kernels: KernelTable, device: Device | None = None) -> Physics:
    return describe("product_narrow", kernels, device or made_up_device())


def columns(kernels: KernelTable, device: Device | None = None) -> Products:
    index = np.zeros(len(kernels), np.int64)
    return family.to_products(
        kernels, collect_figures([device or made_up_device()], index, kernels.word("dtype"))
    )


def test_there_is_a_name_for_every_feature():
    features = physics(products(3)).features
    assert features.shape == (3, len(family.feature_names))
    assert np.isfinite(features).all()


def test_the_roofline_terms_are_flops_over_peak_and_weights_over_bandwidth():
    found = physics(products(m=100, n=200, k=300, batch=2, is_cold=True))
    assert found.compute_seconds[0] == pytest.approx(2 * 2 * 100 * 200 * 300 / 10e12)
    assert found.memory_seconds[0] == pytest.approx(2 * 2 * 200 * 300 / 100e9)


@pytest.mark.parametrize(
    ("dtype", "a_bytes", "b_bytes", "c_bytes"),
    [
        ("fp32", 4, 4, 4),
        ("bf16", 2, 2, 2),
        ("int8_wo", 2, 1, 2),
        ("fp8", 3, 1, 2),  # the 16-bit input is read and quantised in the same call
        ("fp8_static", 1, 1, 2),
        ("int4_wo", 2, 0.5 + 2 / 128, 2),
        ("nvfp4", 2.5 + 1 / 16, 0.5 + 1 / 16, 2),
    ],
)
def test_a_format_has_its_bytes_with_scales(dtype, a_bytes, b_bytes, c_bytes):
    found = columns(products(dtype=dtype))
    assert (found.a_bytes[0], found.b_bytes[0], found.c_bytes[0]) == (a_bytes, b_bytes, c_bytes)


def test_weights_that_fit_the_cache_six_times_are_resident():
    # 4 MiB of cache; k · n weights of two bytes, six copies by SGLang's benchmark; a small A and C
    assert columns(products(m=1, n=512, k=512)).resident[0] > 0.9  # 6 × 0.5 MiB
    assert columns(products(m=1, n=1024, k=512)).resident[0] < 0.05  # 6 × 1 MiB
    assert columns(products(m=1, n=1024, k=512, framework="pytorch")).resident[0] > 0.99  # one copy


def test_nothing_is_resident_in_a_model_s_step():
    assert columns(products(m=1, n=8, k=8, is_cold=True)).resident[0] < 1e-9
    assert columns(products(m=1, n=8, k=8)).resident[0] > 1 - 1e-9


def test_wide_formats_run_other_kernels_than_narrow_ones():
    mixed = products(4, dtype=np.array(["fp32", "bf16", "fp64", "tf32"], dtype=object))
    assert family.is_wide(mixed).tolist() == [True, False, True, False]


def test_a_mixed_table_is_priced_like_each_of_its_rows():
    dtypes = np.array(["fp32", "bf16", "fp8", "fp32"], dtype=object)
    mixed = products(4, dtype=dtypes, m=np.array([1, 64, 512, 3000]))
    together = physics(mixed)
    for index in range(4):
        alone = physics(mixed.take(np.array([index])))
        assert alone.seconds[0] == pytest.approx(together.seconds[index], rel=1e-6)
        assert alone.features[0] == pytest.approx(together.features[index], rel=1e-6)


def test_a_word_that_is_not_known_has_the_code_minus_one():
    words = np.array(["vllm", "elsewhere", "pytorch"], dtype=object)
    assert family.codes(words, family.FRAMEWORKS).tolist() == [3, -1, 0]


sizes = st.integers(1, 8192)
devices, formats = st.sampled_from(DEVICES), st.sampled_from(FORMATS)


@settings(max_examples=120, deadline=None)
@given(
    m=sizes, n=sizes, k=sizes, batch=st.integers(1, 8), which=formats, device=devices, is_cold=st.booleans()
)
def test_physics_never_beats_the_roofline(m, n, k, batch, which, device, is_cold):
    dtype, framework = which
    kernels = products(m=m, n=n, k=k, batch=batch, dtype=dtype, framework=framework, is_cold=is_cold)
    found = physics(kernels, device)
    assert np.isfinite(found.seconds).all()
    assert found.seconds[0] >= found.compute_seconds[0] * (1 - 1e-6)
    assert found.seconds[0] >= found.memory_seconds[0] * (1 - 1e-6)


@settings(max_examples=120, deadline=None)
@given(m=sizes, n=sizes, k=sizes, which=formats, device=devices)
def test_a_cold_product_takes_at_least_as_long_as_its_repeated_twin_but_for_the_host(m, n, k, which, device):
    # What the host takes is inside a measurement of repeated fp32 products, and hidden within a step.
    dtype, framework = which
    repeated = products(m=m, n=n, k=k, dtype=dtype, framework=framework)
    cold = physics(replace(repeated, is_cold=True), device)
    host_seconds = family.VECTOR_UNITS.launch_seconds if dtype == "fp32" else 0.0
    assert cold.seconds[0] >= (physics(repeated, device).seconds[0] - host_seconds) * (1 - 1e-6)


@settings(max_examples=120, deadline=None)
@given(
    m=sizes, n=sizes, k=sizes, which=formats, device=devices, is_cold=st.booleans(),
    axis=st.sampled_from(["n", "k", "batch"]),
)  # fmt: skip
def test_twice_as_many_columns_products_or_steps_never_take_less(m, n, k, which, device, is_cold, axis):
    dtype, framework = which
    shape = {"m": m, "n": n, "k": k, "batch": 1}
    once, twice = (
        physics(products(**s, dtype=dtype, framework=framework, is_cold=is_cold), device)
        for s in (shape, shape | {axis: 2 * shape[axis]})
    )
    assert twice.seconds[0] >= once.seconds[0] * (1 - 1e-5)


@settings(max_examples=120, deadline=None)
@given(m=sizes, n=st.integers(2048, 16384), k=sizes, which=formats, device=devices, is_cold=st.booleans())
def test_twice_as_many_rows_never_take_less_where_blocks_saturate_the_memory(m, n, k, which, device, is_cold):
    # With fewer blocks than that, further rows of tiles bring the same weights in faster.
    dtype, framework = which
    once, twice = (
        physics(products(m=rows, n=n, k=k, dtype=dtype, framework=framework, is_cold=is_cold), device)
        for rows in (m, 2 * m)
    )
    assert twice.seconds[0] >= once.seconds[0] * (1 - 1e-5)


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, factor=st.floats(1.0, 8.0))
def test_faster_memory_never_takes_longer(m, n, k, factor):
    slow, fast = (
        physics(products(m=m, n=n, k=k, is_cold=True), made_up_device(memory_bytes_per_second=rate))
        for rate in (1e11, factor * 1e11)
    )
    assert fast.seconds[0] <= slow.seconds[0] * (1 + 1e-6)
