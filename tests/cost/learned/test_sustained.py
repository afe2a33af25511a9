from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import made_up_device
from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.dtype import DType
from perfcast.cost.learned.sustained import (
    TYPICAL_BASE_OVER_BOOST,
    clock_share,
    has_power_to_spare,
    is_issue_limited,
    power_needed,
    power_share,
    sustained_share,
)

DEVICES = [entry.device for entry in load_device_entries().values()]
shares = st.floats(0.05, 1.0)


@pytest.mark.parametrize("matrix_units", [False, True])
@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_every_device_of_the_catalog_sustains_a_positive_share_of_its_peak(device, matrix_units):
    highest = (device.max_clock_hertz or device.clock_hertz) / device.clock_hertz
    assert 0.3 < sustained_share(device, matrix_units) <= highest


def test_a_board_with_power_to_spare_rises_to_the_mean_of_base_and_highest_clock():
    device = made_up_device(clock_hertz=1e9, base_clock_hertz=0.81e9, max_clock_hertz=1.44e9)
    assert sustained_share(device, True) == pytest.approx(0.9 * 1.2)
    poor = replace(device, power_watts=1.0, operation_energy=1.0)
    assert not has_power_to_spare(poor, True)
    assert sustained_share(poor, True) == pytest.approx(0.9 * math.sqrt(power_share(poor, True)))


@pytest.mark.parametrize(("name", "megahertz"), [("rtx-4090", 2655), ("rtx-3090", 1750)])
def test_clocks_of_geforce_under_load_are_those_that_were_seen(name, megahertz):
    # NVIDIA/nvbench, pull request 207: 2655 MHz; the RTX 3090 of reviews runs at 1.7 to 1.9 GHz.
    device = load_device(name)
    assert sustained_share(device, True) * device.clock_hertz == pytest.approx(megahertz * 1e6, rel=0.05)


def test_only_boards_of_the_geforce_line_rise_beyond_their_boost_clock():
    rising = {device.name for device in DEVICES if device.max_clock_hertz is not None}
    assert rising == {d.name for d in DEVICES if "GeForce" in d.title}


def test_the_sustained_clock_lies_at_the_mean_of_base_and_boost():
    device = made_up_device(clock_hertz=1e9, base_clock_hertz=0.64e9)
    assert clock_share(device) == 0.64
    assert sustained_share(device, True) == pytest.approx(0.8)


def test_a_base_clock_that_is_not_published_is_taken_as_typical():
    assert clock_share(made_up_device()) == TYPICAL_BASE_OVER_BOOST


def test_a_base_clock_above_the_stated_one_is_no_gain():
    assert clock_share(made_up_device(clock_hertz=1e9, base_clock_hertz=1.2e9)) == 1


@given(base=shares, lower=shares, matrix_units=st.booleans())
def test_a_lower_base_clock_sustains_less(base, lower, matrix_units):
    fast, slow = (
        made_up_device(clock_hertz=1e9, base_clock_hertz=share * 1e9) for share in (base, base * lower)
    )
    assert sustained_share(slow, matrix_units) <= sustained_share(fast, matrix_units)
    if lower < 0.99:
        assert sustained_share(slow, matrix_units) < sustained_share(fast, matrix_units)


@given(watts=st.floats(5.0, 500.0), lower=shares, matrix_units=st.booleans())
def test_less_power_sustains_no_more(watts, lower, matrix_units):
    rich, poor = (made_up_device(power_watts=w, operation_energy=1.0) for w in (watts, watts * lower))
    assert sustained_share(poor, matrix_units) <= sustained_share(rich, matrix_units)


def test_half_the_power_that_full_speed_takes_is_the_root_of_a_half_of_the_speed():
    # 1 TFLOP/s of fp32 at 22 pJ each takes 22 W at 16 nm; 10 TFLOP/s of fp16 at 2.6 pJ, 26 W
    ordinary = made_up_device(power_watts=11.0, operation_energy=1.0)
    matrix = made_up_device(power_watts=13.0, operation_energy=1.0)
    assert power_share(ordinary, matrix_units=False) == pytest.approx(0.5)
    assert power_share(matrix, matrix_units=True) == pytest.approx(0.5)
    assert sustained_share(matrix, True) == pytest.approx(math.sqrt(TYPICAL_BASE_OVER_BOOST * 0.5))


def test_a_finer_process_needs_less_power_for_the_same_speed():
    coarse, fine = (made_up_device(power_watts=11.0, operation_energy=energy) for energy in (1.0, 0.5))
    assert power_share(fine, False) == pytest.approx(2 * power_share(coarse, False))


def test_power_does_not_limit_where_power_or_process_are_not_known():
    assert power_share(made_up_device(power_watts=None, operation_energy=1.0), True) == 1
    assert power_share(made_up_device(power_watts=1.0, operation_energy=None), True) == 1
    assert power_share(made_up_device(power_watts=1e4, operation_energy=1.0), True) == 1


def test_a_device_without_half_precision_units_is_judged_by_its_ordinary_ones():
    device = made_up_device(power_watts=1.3, operation_energy=1.0, matrix_flops_per_second={})
    assert power_share(device, matrix_units=True) == pytest.approx(0.5)  # 1 TFLOP/s at 2.6 pJ: 2.6 W


@pytest.mark.parametrize(
    ("name", "limited"),
    [
        ("p100-pcie", True),  # 64 lanes, two schedulers
        ("p4", True),  # 128 lanes, four schedulers
        ("v100-pcie-16gb", False),  # 64 lanes, four schedulers
        ("t4", False),
        ("a100-pcie-40gb", False),
        ("h100-sxm", True),  # 128 lanes, four schedulers
        ("mi100", False),  # another vendor's schedulers
    ],
)
def test_a_scheduler_with_32_lanes_limits_the_issue(name, limited):
    assert is_issue_limited(load_device(name)) is limited


def test_the_issue_limit_takes_a_fifth_of_ordinary_arithmetic_and_nothing_of_matrix_units():
    wide = made_up_device(vector_flops_per_second={DType.FP32: 2 * 128 * 10 * 1e9})
    assert sustained_share(wide, False) == pytest.approx(TYPICAL_BASE_OVER_BOOST**0.4 * 0.8)
    assert sustained_share(wide, True) == pytest.approx(math.sqrt(TYPICAL_BASE_OVER_BOOST))


def test_ordinary_units_that_need_half_of_the_power_keep_nine_tenths_of_the_way_to_boost():
    # 22 W of 44 W: 0.64^(0.4 · 0.25), where all of the power would leave 0.64^0.4, and tensor cores 0.64^0.5
    device = made_up_device(clock_hertz=1e9, base_clock_hertz=0.64e9, power_watts=44.0, operation_energy=1.0)
    assert power_needed(device, False) == pytest.approx(0.5)
    assert sustained_share(device, False) == pytest.approx(0.64**0.1)
    assert sustained_share(replace(device, power_watts=22.0), False) == pytest.approx(0.64**0.4)
    assert sustained_share(device, True) == pytest.approx(0.64**0.5)


def test_single_precision_on_a_board_that_nothing_was_learned_from_is_what_was_published():
    # cuBLAS on RTX A6000: 23.25 TFLOP/s at 4096³ (S. Boehm, 2022)
    device = load_device("rtx-a6000")
    peak = device.vector_flops_per_second[DType.FP32]
    assert peak * sustained_share(device, False) == pytest.approx(23.25e12, rel=0.05)
