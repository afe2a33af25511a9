from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.forecast.footprint import Term
from perfcast.core.tensor import Category
from perfcast.core.training import DTYPES, FRAMEWORKS, Training
from perfcast.memory_use.footprint.activations import element_bytes, product_bytes
from perfcast.memory_use.footprint.spread import (
    ANY,
    CAPTURED,
    SERVING,
    Side,
    Spread,
    bytes_by_kind,
    load_spread,
    spread_name,
)


def terms(**num_bytes: int) -> list[Term]:
    return [Term(name, getattr(Category, name), value, "", "") for name, value in num_bytes.items()]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, ANY, CAPTURED, SERVING])
def test_every_framework_has_a_spread_in_order(framework: str):
    spread = load_spread(framework)
    held = terms(PARAMETER=10**9, ACTIVATION=2 * 10**9, TEMPORARY=10**8)
    low, high = spread.bounds(held)
    assert 0 < low < sum(term.num_bytes for term in held) < high
    assert 1 <= spread.reserved <= spread.reserved_high


def test_a_side_adds_what_parts_err_by_as_independent_errors():
    side = Side(fixed_bytes=3e8, whole=0.0, states=0.0, activations=0.1, other=0.0)
    spread = Spread(side, side, 1.0, 1.0)
    low, high = spread.bounds(terms(GRADIENT=10**9, ACTIVATION=4 * 10**9))
    assert high == pytest.approx(5e9 + 5e8)  # √(0.3² + 0.4²) GB
    assert low == pytest.approx(5e9 / 1.1)


def test_of_small_peaks_what_no_part_holds_decides_and_of_large_ones_the_parts():
    side = Side(1e8, 0.0, 0.01, 0.01, 0.01)
    small, large = side.shares(np.array([[1e8, 0.0, 0.0], [1e11, 0.0, 0.0]]))
    assert small == pytest.approx(1.0, rel=1e-3)
    assert large == pytest.approx(0.01, rel=1e-2)


def test_what_errs_alike_is_counted_together():
    found = bytes_by_kind(
        terms(PARAMETER=1, GRADIENT=2, OPTIMIZER_STATE=4, KV_CACHE=8, ACTIVATION=16, BUFFER=32)
    )
    assert found.tolist() == [15, 16, 32]


def test_a_framework_like_a_measured_one_is_as_sure_and_any_other_as_those_that_were_not_fitted():
    measured = {"megatron": 0, "any": 0}
    assert [spread_name(name, measured) for name in ("megatron", "nemo", "torchtitan", "deepspeed")] == [
        "megatron", "megatron", "any", "any",
    ]  # fmt: skip


@given(
    st.tuples(*[st.integers(0, 10**12)] * 3).filter(any),
    st.sampled_from(["megatron", "nanotron", "any", "serving"]),
)
def test_more_of_a_part_never_lowers_the_upper_end(parts: tuple[int, int, int], name: str):
    names = ("PARAMETER", "ACTIVATION", "TEMPORARY")
    spread = load_spread(name)
    before = spread.bounds(terms(**dict(zip(names, parts, strict=True))))
    for place in range(3):
        more = [count + (10**10 if at == place else 0) for at, count in enumerate(parts)]
        after = spread.bounds(terms(**dict(zip(names, more, strict=True))))
        assert after[1] >= before[1]


def test_narrow_products_keep_their_bytes_and_scales_between_tensors_of_two():
    sizes = {
        dtype: (element_bytes(Training(dtype=dtype)), product_bytes(Training(dtype=dtype)))
        for dtype in DTYPES
    }
    assert sizes == {"fp32": (4, 4), "tf32": (4, 4), "bf16": (2, 2), "fp16": (2, 2), "fp8": (2, 1),
        "fp8_block": (2, 1 + 4 / 128), "mxfp8": (2, 1 + 1 / 32), "nvfp4": (2, 1 / 2 + 1 / 16),
    }  # fmt: skip
