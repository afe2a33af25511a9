"""What a process holds of a device besides its tensors."""

from __future__ import annotations

from typing import Any

import pytest

from builders import made_up_device
from perfcast.catalogs.devices import load_device
from perfcast.errors import CatalogError, InputError
from perfcast.memory_use.allocator import communicator, cublas_workspace_bytes, driver_context
from perfcast.memory_use.allocator.context import load_process_figures, parse_process_figures
from perfcast.units import MIB


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("v100-sxm2-16gb", 8_519_680),
        ("a100-sxm-80gb", 8_519_680),
        ("h100-sxm", 32 * MIB),
        ("b200", 32 * MIB),
        ("mi210", 32 * MIB),
        ("mi300x", 128 * MIB),
    ],
)
def test_workspaces_are_those_of_pytorch(device: str, expected: int):
    assert cublas_workspace_bytes(load_device(device)) == expected


def test_other_vendors_have_no_workspace():
    assert cublas_workspace_bytes(made_up_device(vendor="google", compute_capability="")) == 0


def test_a_context_measured_on_the_same_architecture_is_taken_and_the_range_is_that_of_all():
    ada = driver_context(made_up_device(compute_capability="8.9"))
    assert ada.num_bytes == 426 * MIB
    assert len(ada.sources) == 1
    assert (ada.low_bytes, ada.high_bytes) == (round(253.8 * MIB), 658 * MIB)


def test_a_context_never_measured_is_the_median_of_all_of_the_vendors():
    hopper = driver_context(load_device("h100-sxm"))
    assert hopper.num_bytes == 400_000_000
    assert len(hopper.sources) == 7
    assert hopper.low_bytes < hopper.num_bytes < hopper.high_bytes


def test_a_communicator_takes_over_half_a_gibibyte():
    assert 544 * MIB <= communicator(load_device("h100-sxm")).num_bytes <= 688 * MIB


def test_a_vendor_without_measurements_is_an_error_that_names_it():
    with pytest.raises(InputError, match="no context was measured on devices of google"):
        driver_context(made_up_device(vendor="google"))


def test_every_shipped_figure_has_a_source_in_full():
    figures = load_process_figures()
    for figure in (*figures.workspaces, *figures.contexts, *figures.communicators):
        assert figure.num_bytes > MIB
        assert "http" in figure.source or figure.source.startswith("PyTorch, ")


@pytest.mark.parametrize(
    ("figure", "part"),
    [
        ({"value": -1, "unit": "MiB", "source": "s"}, "not a positive number"),
        ({"value": float("nan"), "unit": "MiB", "source": "s"}, "not a positive number"),
        ({"value": 1, "unit": "furlong", "source": "s"}, "unknown unit 'furlong'"),
        ({"value": 1, "unit": "MiB", "source": "t"}, "source 't' is not in the file"),
        ({"value": 1, "unit": "MiB"}, "source missing"),
    ],
)
def test_a_figure_without_value_unit_or_source_is_refused(figure: dict[str, Any], part: str):
    entry = ", ".join(f"{key} = {value!r}" for key, value in figure.items())
    row = f"[[contexts]]\nvendor = 'v'\ncapability = ''\nbytes = {{ {entry} }}"
    text = f"workspaces = []\ncommunicators = []\n[sources]\ns = 'S'\n{row}"
    with pytest.raises(CatalogError, match=part):
        parse_process_figures(text)
