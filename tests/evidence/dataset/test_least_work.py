"""Lower bounds of work, by hand and by counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.convolution import square_sizes
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.evidence.dataset.work import attended_pairs, least_work

PRODUCT = {"batch": 2, "m": 10, "n": 20, "k": 30, "operation": "linear", "layout": "nt", "framework": "x"}
ATTENTION = {
    "batch": 2, "num_queries": 3, "num_keys": 5, "num_heads": 8, "num_kv_heads": 4, "head_size": 64,
    "value_head_size": 32, "window": 0, "causal": 1, "operation": "context", "dtype": "bf16",
    "kv_dtype": "fp8", "framework": "x",
}  # fmt: skip


def one(family: KernelFamily, **columns: object) -> KernelTable:
    return build_kernel_table(family, 1, **columns)


@pytest.mark.parametrize(
    ("dtype", "traffic"),
    [
        ("fp32", 4 * (300 + 600 + 200)),
        ("bf16", 2 * (300 + 600 + 200)),
        ("fp8", 300 + 600 + 2 * 200),
        ("nvfp4", (300 + 600) / 2 + 2 * 200),
        ("int4_wo", 2 * 300 + 600 / 2 + 2 * 200),
    ],
)
def test_a_product_reads_both_operands_in_its_format_and_writes_the_result(dtype: str, traffic: float):
    work = least_work(one(KernelFamily.PRODUCT, dtype=dtype, **PRODUCT))
    assert work.flops.tolist() == [2 * 2 * 10 * 20 * 30]
    assert work.bytes.tolist() == [2 * traffic]


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 15), st.booleans())
def test_attended_pairs_are_those_that_a_mask_lets_through(
    queries: int, cached: int, window: int, causal: bool
):
    keys = queries + cached
    seen = 0
    for query in range(queries):
        visible = cached + query + 1 if causal else keys
        seen += min(visible, window) if window else visible
    columns = (np.array([float(v)]) for v in (queries, keys, window, causal))
    assert attended_pairs(*columns).tolist() == [seen]


def test_attention_multiplies_queries_by_keys_and_weights_by_values():
    work = least_work(one(KernelFamily.ATTENTION, **ATTENTION))
    assert work.flops.tolist() == [2 * 2 * 8 * (3 + 4 + 5) * (64 + 32)]
    assert work.bytes.tolist() == [2 * (4 * 5 * (64 + 32) * 1 + 8 * 3 * (64 + 32) * 2)]


def test_a_backward_pass_is_five_products_in_place_of_two():
    forward, backward = (
        least_work(one(KernelFamily.ATTENTION, **ATTENTION | {"operation": operation})).flops[0]
        for operation in ("context", "context_backward")
    )
    assert backward == 2.5 * forward


def test_the_absorbed_latent_is_read_once_as_key_and_as_value():
    latent = ATTENTION | {"num_queries": 1, "num_kv_heads": 1, "operation": "mla_generation", "causal": 0}
    work = least_work(one(KernelFamily.ATTENTION, **latent))
    assert work.bytes.tolist() == [2 * (5 * 64 * 1 + 8 * (64 + 32) * 2)]


def test_a_window_bounds_what_is_read():
    short = least_work(one(KernelFamily.ATTENTION, **ATTENTION | {"num_keys": 1000, "window": 10}))
    assert short.bytes.tolist() == [2 * (4 * 13 * (64 + 32) * 1 + 8 * 3 * (64 + 32) * 2)]


@pytest.mark.parametrize(("kernel_size", "saving"), [(3, 4), (5, 1)])
def test_only_three_by_three_convolutions_may_be_winograds(kernel_size: int, saving: float):
    convolution = one(
        KernelFamily.CONVOLUTION, batch=2, c_in=3, c_out=4, groups=1, **square_sizes(10, kernel_size, 1, 1),
        has_bias=0, operation="convolution", memory_format="contiguous", dtype="fp32", framework="x",
    )  # fmt: skip
    side = 10 + 2 - kernel_size + 1
    weights = 4 * 3 * kernel_size**2
    work = least_work(convolution)
    assert work.flops.tolist() == [2 * 2 * side**2 * weights / saving]
    assert work.bytes.tolist() == [4 * (2 * 3 * 100 + 2 * 4 * side**2 + weights)]


def test_experts_surely_read_the_weights_of_one_token_only():
    experts = one(
        KernelFamily.EXPERTS, num_tokens=16, hidden_size=100, inter_size=40, experts_per_token=4,
        num_experts=64, tensor_parallel=2, expert_parallel=2, operation="moe", distribution="balanced",
        dtype="bf16", framework="x",
    )  # fmt: skip
    weights = 2 * 100 * 40 / 2
    work = least_work(experts)
    assert work.flops.tolist() == [2 * 16 * 2 * weights]
    assert work.bytes.tolist() == [2 * weights * 2 + 16 * 100 * (2 + 2)]


def test_rows_move_what_they_say():
    columns = {"num_rows": 3.0, "row_length": 5.0, "read_bytes": 60.0, "written_bytes": 30.0}
    words = {"operation": "add", "dtype": "fp16", "framework": "x"}
    rows = KernelTable(
        KernelFamily.ROWS,
        {name: np.array([value]) for name, value in columns.items()}
        | {name: np.array([word], dtype=object) for name, word in words.items()},
    )
    assert least_work(rows).flops.tolist() == [0]
    assert least_work(rows).bytes.tolist() == [90]


@pytest.mark.parametrize(("operation", "elements"), [("causal_conv1d_fn", 2 * 320), ("chunk_scan", 384)])
def test_a_scan_moves_keys_queries_and_values_and_its_convolution_all_channels(operation: str, elements: int):
    scan = one(
        KernelFamily.SCAN, batch=2, sequence_length=7, model_size=64, conv_size=4, num_key_heads=4,
        key_head_size=16, num_value_heads=6, value_head_size=32, state_size=16, num_groups=4, chunk_size=0,
        operation=operation, phase="context", dtype="bf16", framework="x",
    )  # fmt: skip
    assert 2 * 4 * 16 + 6 * 32 == 320
    assert least_work(scan).bytes.tolist() == [
        2 * 7 * (elements if "conv" in operation else 128 + 2 * 192) * 2
    ]
