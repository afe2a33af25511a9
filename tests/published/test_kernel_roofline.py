"""The roofline of kernels, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.convolution import square_sizes
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.published.kernels.roofline import KernelRoofline
from perfcast.published.kernels.work import convolution_work, product_work

H100 = load_device("h100-sxm")
ONE = np.zeros(1, dtype=np.int64)


def product(m: float, dtype: str = "bf16") -> KernelTable:
    return build_kernel_table(
        KernelFamily.PRODUCT, 1, operation="linear", dtype=dtype, batch=1, m=m, n=4096, k=4096, layout="nt",
        framework="pytorch",
    )  # fmt: skip


def test_a_large_product_is_bound_by_arithmetic_and_a_thin_one_by_memory():
    peak = H100.matrix_flops_per_second[DType.BF16]
    large, thin = (KernelRoofline().predict(product(m), (H100,), ONE)[0] for m in (8192, 1))
    assert large == pytest.approx(2 * 8192 * 4096**2 / peak)
    assert thin == pytest.approx(2 * (4096**2 + 2 * 4096) / H100.memory_bytes_per_second)


def test_a_product_counts_its_operands_and_result_once():
    work = product_work(product(2, "fp8"))
    assert (work.flops[0], work.traffic_bytes[0]) == (2 * 2 * 4096**2, 4096**2 + 2 * 2 * 4096)


def test_a_strided_convolution_by_hand():
    work = convolution_work(
        build_kernel_table(
            KernelFamily.CONVOLUTION,
            1,
            operation="convolution",
            dtype="fp32",
            framework="pytorch",
            batch=2,
            c_in=4,
            c_out=8,
            groups=2,
            has_bias=0,
            memory_format="contiguous",
            **square_sizes(9, 3, 2, 1),
        )
    )
    outputs, weights = 2 * 8 * 5 * 5, 8 * 2 * 9
    assert work.flops[0] == 2 * outputs * 2 * 9
    assert work.traffic_bytes[0] == 4 * (2 * 4 * 81 + weights + outputs)


def test_attention_is_bound_by_its_products():
    attention = build_kernel_table(
        KernelFamily.ATTENTION, 1, operation="context", dtype="bf16", kv_dtype="bf16", framework="sglang",
        batch=4, num_queries=4096, num_keys=4096, num_heads=32, num_kv_heads=8, head_size=128,
        value_head_size=128, window=0, causal=0,
    )  # fmt: skip
    seconds = KernelRoofline().predict(attention, (H100,), ONE)
    assert seconds[0] == pytest.approx(4 * 4 * 32 * 4096**2 * 128 / H100.matrix_flops_per_second[DType.BF16])


def test_an_unknown_format_has_no_roofline():
    assert np.isnan(KernelRoofline().predict(product(8, "fp7"), (H100,), ONE)).all()
