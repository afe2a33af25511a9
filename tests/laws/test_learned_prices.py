"""Of the learned forecaster: kernels that grow with the batch, the sequence or tokens never take less.

Of sizes that weights have (columns, what is summed over, heads) the law is not asked of single kernels: a
library takes other tiles for other widths, and a width that no vector divides is truly slower than the next
one that some vector does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.drawn import ROWS, Floats, arrays, grown, seeds, whole
from perfcast.catalogs.devices import load_device
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.model import rising_prices

MEASURED = ("a100-sxm-80gb", "h100-sxm", "b200", "l40s", "t4")
UNSEEN = ("mi300x", "rtx-4090", "l4", "v100-sxm2-16gb", "arc-pro-b60", "gaudi-3")
devices = st.sampled_from(MEASURED + UNSEEN)


def check(model: str, device: str, small: KernelTable, large: KernelTable) -> None:
    prices = rising_prices(model, None, load_device(device))
    few, many = (prices.of(replace(kernels, is_cold=True)) for kernels in (small, large))
    assert np.isfinite(few).all()
    assert (few > 0).all()
    worst = int(np.argmin(many / few))
    assert many[worst] >= few[worst] * (1 - 1e-12), {
        name: (column[worst], large.columns[name][worst]) for name, column in small.columns.items()
    }


@arrays(4, share=0.4)
@given(
    devices,
    seeds,
    st.sampled_from(("bf16", "fp16", "fp32", "int8")),
    st.sampled_from(("nt", "nn", "tn", "bmm")),
)
def test_products_of_more_rows_steps_or_batches_never_take_less(device, seed, dtype, layout):
    draw = np.random.default_rng(seed)
    shape = {"batch": 1.0 if layout != "bmm" else whole(draw, 0, 9), "m": whole(draw, 0, 16)}
    shape |= {name: whole(draw, 3, 15) for name in "nk"}
    axis = {"bmm": "batch", "tn": "k"}.get(layout, "m")
    words = {
        "operation": "bmm" if layout == "bmm" else "linear",
        "layout": layout[:2],
        "dtype": dtype,
        "framework": "pytorch" if dtype == "fp32" else str(draw.choice(["vllm", "sglang", "trtllm"])),
    }
    small, large = (
        build_kernel_table(KernelFamily.PRODUCT, ROWS, **(shape | {axis: size}), **words)
        for size in (shape[axis], grown(draw, np.broadcast_to(shape[axis], ROWS)))
    )
    check("product_wide" if dtype == "fp32" else "product_narrow", device, small, large)


OVER_ROWS = (
    "add",
    "gelu",
    "softmax",
    "ln",
    "rms_norm",
    "copy",
    "copy_strided",
    "embedding",
    "reduction_rows",
    "loss",
    "ln_backward",
    "layer_norm_backward",
    "elementwise_broadcast",
    "optimizer",
    "rope",
    "silu_mul",
    "indexing",
)


@arrays(4, share=0.4)
@given(devices, seeds, st.sampled_from(OVER_ROWS), st.sampled_from(("fp16", "bf16", "fp32")))
def test_kernels_over_more_rows_never_take_less_whatever_is_read_once(device, seed, operation, dtype):
    draw = np.random.default_rng(seed)
    length, rows = whole(draw, 0, 15), whole(draw, 0, 20)
    each_read, once, each_written = draw.choice([1, 2, 4, 8], (3, ROWS)) * length
    once *= draw.integers(0, 3, ROWS)

    def table(rows: Floats) -> KernelTable:
        return build_kernel_table(
            KernelFamily.ROWS,
            ROWS,
            num_rows=rows,
            row_length=length,
            read_bytes=each_read * rows + once,
            written_bytes=each_written * rows,
            operation=operation,
            dtype=dtype,
            framework="pytorch",
        )

    check("rows", device, table(rows), table(grown(draw, rows)))


@arrays(2, share=0.15)
@given(devices, seeds, st.sampled_from(("context", "encoder", "context_backward", "generation")))
def test_attention_of_more_or_longer_sequences_never_takes_less(device, seed, operation):
    draw = np.random.default_rng(seed)
    batch, length, heads = whole(draw, 0, 11), whole(draw, 1, 16), whole(draw, 0, 7)
    longer = draw.random(ROWS) < 0.5
    more = np.where(longer, batch, grown(draw, batch)), np.where(longer, grown(draw, length), length)
    size = draw.choice([64.0, 80.0, 128.0], ROWS)

    def table(batch: Floats, length: Floats) -> KernelTable:
        return build_kernel_table(
            KernelFamily.ATTENTION,
            ROWS,
            batch=batch,
            num_keys=length,
            num_heads=heads,
            num_kv_heads=heads,
            num_queries=1.0 if operation == "generation" else length,
            head_size=size,
            value_head_size=size,
            window=0,
            causal=float(operation != "encoder"),
            operation=operation,
            dtype="bf16",
            kv_dtype="bf16",
            framework=framework,
        )

    framework = str(draw.choice(["vllm", "sglang", "trtllm"]))
    check("attention", device, table(batch, length), table(*more))


@arrays(2, share=0.15)
@given(devices, seeds, st.sampled_from(("moe_cold", "moe_ungated_cold")))
def test_experts_of_more_tokens_never_take_less(device, seed, operation):
    draw = np.random.default_rng(seed)
    tokens, experts = whole(draw, 0, 17), 2.0 ** draw.integers(3, 9, ROWS)
    shape = {
        "hidden_size": whole(draw, 8, 13),
        "inter_size": whole(draw, 8, 14),
        "num_experts": experts,
        "experts_per_token": np.minimum(whole(draw, 0, 3), experts),
        "tensor_parallel": 1.0,
        "expert_parallel": 2.0 ** draw.integers(0, 4, ROWS),
        "operation": operation,
        "distribution": "balanced",
        "dtype": "bf16",
        "framework": str(draw.choice(["vllm", "sglang", "trtllm"])),
    }
    small, large = (
        build_kernel_table(KernelFamily.EXPERTS, ROWS, num_tokens=count, **shape)
        for count in (tokens, grown(draw, tokens))
    )
    check("experts", device, small, large)


@pytest.mark.parametrize("device", ["h100-sxm", "mi300x"])
def test_a_price_is_the_same_whatever_was_asked_before(device: str):
    draw = np.random.default_rng(0)
    kernels = build_kernel_table(
        KernelFamily.PRODUCT,
        ROWS,
        batch=1,
        m=whole(draw, 0, 16),
        n=4096,
        k=4096,
        operation="linear",
        layout="nt",
        dtype="bf16",
        framework="vllm",
    )
    prices = rising_prices("product_narrow", None, load_device(device))
    prices.of(replace(kernels, is_cold=True))
    together = prices.of(kernels)
    fresh = replace(prices, _fitted={}, _physical={})
    assert [fresh.of(kernels.take(np.array([i])))[0] for i in range(0, ROWS, 20)] == together[::20].tolist()
