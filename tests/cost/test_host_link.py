"""Copies over PCIe and updates in host memory, by hand."""

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.machine.host import FROM_HOST, host_copy, host_update
from perfcast.cost.host_link import host_bytes_per_second, price_on_host
from perfcast.cost.prices import price_operations
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError


def test_a_copy_to_the_host_runs_at_four_fifths_of_pcie():
    copy = host_copy(FROM_HOST, 63_000_000, DType.BF16)
    assert price_on_host([copy], load_device("a100-sxm-80gb")).seconds[0] == pytest.approx(
        126e6 / (0.8 * 31.5e9)
    )
    assert price_on_host([copy], load_device("h100-sxm")).seconds[0] == pytest.approx(126e6 / (0.8 * 63e9))


def test_an_update_on_the_host_moves_its_states_through_host_memory():
    update = host_update(1000, (DType.FP32,) * 4, (DType.FP32,) * 3)
    estimates = price_on_host([update], load_device("h100-sxm"))
    assert estimates.seconds[0] == pytest.approx(28_000 / 80e9)
    assert estimates.seconds_low[0] < estimates.seconds[0] < estimates.seconds_high[0]


def test_prices_send_what_uses_the_host_there():
    copy, device = host_copy(FROM_HOST, 1_000_000, DType.BF16), load_device("h100-sxm")
    prices = price_operations([copy], device, Roofline())
    assert prices.seconds[copy] == price_on_host([copy], device).seconds[0]


def test_grace_hosts_are_joined_by_a_faster_link():
    assert host_bytes_per_second(load_device("gb200")) > host_bytes_per_second(load_device("b200"))


def test_a_device_of_whose_host_nothing_is_known_is_an_error():
    with pytest.raises(PlanError, match="tpu"):
        host_bytes_per_second(load_device("tpu-v4"))
