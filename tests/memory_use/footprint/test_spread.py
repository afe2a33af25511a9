from __future__ import annotations

import pytest

from perfcast.core.training import DTYPES, FRAMEWORKS, Training
from perfcast.memory_use.footprint.activations import element_bytes, product_bytes
from perfcast.memory_use.footprint.spread import load_spread


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "any"])
def test_every_framework_has_a_spread_in_order(framework: str):
    spread = load_spread(framework)
    assert 0 < spread.allocated_low <= 1 <= spread.allocated_high
    assert 1 <= spread.reserved <= spread.reserved_high


def test_narrow_products_keep_their_bytes_and_scales_between_tensors_of_two():
    sizes = {
        dtype: (element_bytes(Training(dtype=dtype)), product_bytes(Training(dtype=dtype)))
        for dtype in DTYPES
    }
    assert sizes == {"fp32": (4, 4), "tf32": (4, 4), "bf16": (2, 2), "fp16": (2, 2), "fp8": (2, 1),
        "fp8_block": (2, 1 + 4 / 128), "mxfp8": (2, 1 + 1 / 32), "nvfp4": (2, 1 / 2 + 1 / 16),
    }  # fmt: skip
