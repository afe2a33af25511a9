"""What bounds the clock that a device holds: base clock and process; names as tables spell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.catalogs.devices import (
    DeviceEntry,
    find_device_name,
    load_device,
    load_device_entries,
    operation_energy,
)
from perfcast.errors import CatalogError

ENTRIES = load_device_entries()
every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)

OWN = """
[sources]
sheet = "Example Corp., X1 Accelerator Datasheet (2024)"

[devices.x1]
title = "Example X1"
vendor = "nvidia"
architecture = "ampere"
die = "X1"
process = "8nm"
year = { value = 2024, unit = "year", source = "sheet" }
memory = { value = 16, unit = "GiB", source = "sheet" }
memory_bandwidth = { value = 500, unit = "GB/s", source = "sheet" }
multiprocessors = { value = 50, unit = "1", source = "sheet" }
boost_clock = { value = 1500, unit = "MHz", source = "sheet" }
base_clock = { value = 1200, unit = "MHz", source = "sheet" }
l2 = { value = 6, unit = "MiB", source = "sheet" }
link = { value = 32, unit = "GB/s", source = "sheet", kind = "pcie4" }

[devices.x1.vector]
fp32 = { value = 9.6, unit = "TFLOP/s", source = "sheet" }
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


# ---- process -----------------------------------------------------------------------------------------


def test_the_reference_process_takes_the_reference_energy():
    assert operation_energy("16nm").si_value == 1


def test_a_finer_process_takes_less_energy_for_an_operation():
    energies = [operation_energy(f"{nm}nm").si_value for nm in (16, 12, 8, 7, 5, 3)]
    assert energies == sorted(energies, reverse=True)
    assert len(set(energies)) == len(energies)
    assert energies[-1] > 0


@pytest.mark.parametrize(
    ("process", "energy"),
    [("12nm", 1 - 0.25), ("8nm", 0.6 * 0.9), ("7nm", 0.6 * 0.6), ("5nm", 0.6 * 0.6 * 0.7)],
)
def test_energies_are_the_foundries_savings_multiplied_up(process, energy):
    assert operation_energy(process).si_value == pytest.approx(energy, rel=0.08)
    assert len(operation_energy(process).source) > 15


def test_an_unknown_process_lists_the_known_ones():
    with pytest.raises(CatalogError, match=r"no process '9nm'; known: 16nm, 12nm, 8nm"):
        operation_energy("9nm")


def test_a_device_of_ones_own_carries_process_and_base_clock(tmp_path):
    device = load_device(write(tmp_path, OWN))
    assert device.operation_energy == operation_energy("8nm").si_value
    assert device.base_clock_hertz == 1.2e9


def test_a_device_without_process_and_base_clock_leaves_both_open(tmp_path):
    lines = [line for line in OWN.splitlines() if not line.startswith(("process", "base_clock"))]
    device = load_device(write(tmp_path, "\n".join(lines)))
    assert device.operation_energy is None
    assert device.base_clock_hertz is None


def test_a_device_of_an_unknown_process_is_a_catalog_error(tmp_path):
    with pytest.raises(CatalogError, match="no process '1nm'"):
        load_device(write(tmp_path, OWN.replace("8nm", "1nm")))


# ---- base clock --------------------------------------------------------------------------------------


@every_entry
def test_no_device_guarantees_more_than_it_advertises(entry: DeviceEntry):
    base = entry.device.base_clock_hertz
    assert base is None or 0 < base <= entry.device.clock_hertz
    assert (base is None) is ("base_clock" not in entry.figures)


def test_a_base_clock_above_the_boost_clock_is_a_catalog_error(tmp_path):
    with pytest.raises(CatalogError, match="x1: base_clock is above boost_clock"):
        load_device(write(tmp_path, OWN.replace("value = 1200", "value = 1600")))


@pytest.mark.parametrize(("name", "megahertz"), [("t4", 585), ("p100-pcie", 1190), ("v100-pcie-16gb", 1245)])
def test_base_clocks_are_the_published_ones(name, megahertz):
    assert load_device(name).base_clock_hertz == pytest.approx(megahertz * 1e6, rel=0.01)


# ---- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("Tesla T4", "t4"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"), ("h100_sxm", "h100-sxm"), ("t4", "t4")],
)
def test_a_spelling_of_a_table_is_found_in_the_catalog(spelling, name):
    assert find_device_name(spelling) == name


@pytest.mark.parametrize("spelling", ["Abacus 3000", "", "t4x"])
def test_a_spelling_that_the_catalog_does_not_know_is_none(spelling):
    assert find_device_name(spelling) is None
