from __future__ import annotations

import pytest

from builders import made_up_device
from perfcast.core.dtype import DType
from perfcast.errors import PlanError

DEVICE = made_up_device()


@pytest.mark.parametrize(
    ("dtype", "matrix_units", "peak"),
    [
        (DType.BF16, True, 10e12),
        (DType.TF32, True, 5e12),
        (DType.FP32, True, 1e12),  # no matrix unit for fp32: the ordinary ones
        (DType.FP32, False, 1e12),
        (DType.FP64, True, 0.5e12),
        (DType.FP64, False, 0.5e12),
        (DType.FP16, False, 1e12),  # ordinary arithmetic widens to fp32, whatever the device could do
        (DType.BF16, False, 1e12),
        (DType.INT64, False, 1e12),
        (DType.BOOL, False, 1e12),
    ],
)
def test_peak_follows_unit_and_element_type(dtype: DType, matrix_units: bool, peak: float):
    assert DEVICE.peak_flops_per_second(dtype, matrix_units) == peak


def test_a_missing_unit_is_an_error_that_names_device_type_and_the_way_out():
    with pytest.raises(PlanError) as raised:
        DEVICE.peak_flops_per_second(DType.FP8, matrix_units=True)
    assert str(raised.value) == (
        "made-up has no fp8 arithmetic for products; it has bf16, fp16, fp32, fp64, tf32. "
        "Choose one of these with --dtype."
    )


def test_ordinary_arithmetic_in_a_type_that_no_unit_has_is_a_plan_error():
    with pytest.raises(PlanError, match="no fp64 arithmetic; it has fp32"):
        made_up_device(vector_flops_per_second={DType.FP32: 1e12}).peak_flops_per_second(DType.FP64, False)


def test_only_the_local_processor_is_a_cpu():
    assert made_up_device(vendor="cpu").is_cpu
    assert not DEVICE.is_cpu
