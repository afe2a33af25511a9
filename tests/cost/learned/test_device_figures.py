"""Columns of ``cost.learned.figures``."""

from __future__ import annotations

import numpy as np
import pytest

from builders import made_up_device
from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily
from perfcast.cost.learned.families.products import ELEMENT_BYTES
from perfcast.cost.learned.figures import ARITHMETIC, Figures, collect_figures, matrix_unit, operand_share
from perfcast.cost.learned.relatives import measured_format
from perfcast.cost.learned.sustained import sustained_share


def collect(devices: list[object], index: list[int], formats: list[str]) -> Figures:
    return collect_figures(devices, np.array(index, np.int64), np.array(formats, dtype=object))


def test_each_row_has_the_figures_of_its_own_device():
    small, large = made_up_device(num_sms=10), made_up_device(num_sms=20, power_watts=300.0)
    figures = collect([small, large], [1, 0, 1], ["bf16", "bf16", "fp32"])
    assert figures.num_sms.tolist() == [20, 10, 20]
    assert figures.power_watts[0] == 300
    assert np.isnan(figures.power_watts[1])


def test_a_format_runs_at_the_peak_of_its_own_units():
    figures = collect([made_up_device()], [0, 0, 0, 0], ["bf16", "fp32", "tf32", "int4_wo"])
    assert figures.matrix_flops_per_second.tolist() == [10e12, 1e12, 5e12, 10e12]
    assert figures.uses_matrix_units.tolist() == [True, False, True, True]
    assert set(figures.vector_flops_per_second.tolist()) == {1e12}


def test_the_sustained_share_is_that_of_the_units_which_compute():
    device = load_device("h100-sxm")
    figures = collect([device], [0, 0], ["bf16", "fp32"])
    assert figures.sustained_share.tolist() == [sustained_share(device, True), sustained_share(device, False)]


def test_a_format_that_the_device_lacks_runs_at_a_wider_one():
    assert matrix_unit(made_up_device(), DType.FP8) == (10e12, True)  # in bf16
    assert matrix_unit(made_up_device(), DType.FP4) == (10e12, True)
    without = made_up_device(matrix_flops_per_second={})
    assert matrix_unit(without, DType.BF16) == (2e12, False)  # in the ordinary units' fp16
    assert matrix_unit(made_up_device(vector_flops_per_second={DType.FP32: 1e12}), DType.FP64) == (
        1e12,
        False,
    )


def test_every_format_that_products_know_has_an_arithmetic_on_every_device():
    devices = [entry.device for entry in load_device_entries().values()]
    assert ELEMENT_BYTES.keys() <= ARITHMETIC.keys()
    for vendor in ("nvidia", "amd", "google"):
        measured = {measured_format(name, KernelFamily.PRODUCT, vendor) for name in ARITHMETIC}
        assert measured <= ELEMENT_BYTES.keys()
    for name in ARITHMETIC:
        figures = collect(devices, list(range(len(devices))), [name] * len(devices))
        assert (figures.matrix_flops_per_second > 0).all()


def test_a_format_that_nobody_knows_is_an_error():
    with pytest.raises(KeyError, match="fp3"):
        collect([made_up_device()], [0], ["fp3"])


def test_taking_rows_takes_them_of_every_column():
    figures = collect([made_up_device(), load_device("t4")], [0, 1, 0], ["bf16", "fp16", "fp32"])
    taken = figures.take(np.array([1]))
    assert taken.matrix_flops_per_second.tolist() == [65e12]
    assert taken.uses_matrix_units.tolist() == [True]


@pytest.mark.parametrize("device", [e.device for e in load_device_entries().values()], ids=lambda d: d.name)
def test_only_geforce_adds_up_in_single_precision_at_half_of_what_it_is_fed(device):
    assert (operand_share(device, DType.BF16) == 0.5) == ("GeForce" in device.title)
    assert operand_share(device, DType.INT8) == operand_share(device, DType.FP4) == 1.0
