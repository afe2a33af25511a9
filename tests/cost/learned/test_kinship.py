"""Who runs the same kernels as whom."""

from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.machine.instructions import find_family, instruction_family
from perfcast.cost.learned.kinship import (
    architecture_of,
    describe_kin,
    is_kindred,
    nearest_kin,
    nearest_of_family,
)

A100, A40 = ("nvidia", "ampere", "8.0"), ("nvidia", "ampere", "8.6")
ADA, HOPPER, SM_100 = ("nvidia", "ada", "8.9"), ("nvidia", "hopper", "9.0"), ("nvidia", "blackwell", "10.0")
MI300X = ("amd", "cdna3", "gfx942")


@pytest.mark.parametrize(
    ("device", "family"),
    [
        ("rtx-pro-6000-server", "mma.sync"), ("gb10", "mma.sync"), ("rtx-4090", "mma.sync"),
        ("a100-sxm-80gb", "mma.sync"), ("t4", "mma.sync of sm_75"), ("h200-sxm", "wgmma"),
        ("b200", "tcgen05"), ("b300", "tcgen05"), ("rubin", "tcgen05"), ("mi300x", "mfma"),
        ("rx-7900-xtx", "wmma"), ("mi455x", "wmma of gfx1250"), ("arc-pro-b60", "dpas"), ("tpu-v5p", "mxu"),
    ],
)  # fmt: skip
def test_devices_are_of_the_family_of_their_matrix_instructions(device, family):
    assert instruction_family(load_device(device)) == family


def test_every_accelerator_of_the_catalog_has_a_family():
    alone = [n for n, e in load_device_entries().items() if instruction_family(e.device).startswith("alone")]
    assert not alone


def test_a_chip_of_which_nothing_is_said_is_a_family_of_its_own():
    assert find_family("somebody", "first", "1.0") != find_family("somebody", "second", "1.0")


def test_sm_120_is_kin_of_ada_and_ampere_and_not_of_sm_100_though_both_are_called_blackwell():
    board = architecture_of(load_device("rtx-pro-6000-server"))
    assert board[1] == SM_100[1]
    assert is_kindred(board, ADA, on_matrix=True)
    assert is_kindred(board, A100, on_matrix=True)
    assert not is_kindred(board, SM_100, on_matrix=True)
    assert nearest_of_family(board, [SM_100, A100, A40, ADA, HOPPER]) == ADA


def test_in_fp32_instructions_say_nothing():
    board = architecture_of(load_device("rtx-pro-6000-server"))
    assert nearest_kin(board, [ADA, A100], on_matrix=False) == "vendor"


def test_the_nearest_of_a_family_is_the_newest_that_is_not_newer():
    assert nearest_of_family(A40, [ADA, A100]) == A100
    assert nearest_of_family(A100, [ADA, HOPPER]) == ADA
    assert nearest_of_family(ADA, [ADA, A100]) == ADA
    assert nearest_of_family(HOPPER, [ADA, A100]) is None
    assert nearest_of_family(("amd", "cdna4", "gfx950"), [MI300X]) == MI300X


def test_kin_falls_with_distance():
    assert nearest_kin(A40, [ADA, A100, MI300X], on_matrix=True) == "architecture"
    assert nearest_kin(ADA, [A100, MI300X], on_matrix=True) == "family"
    assert nearest_kin(HOPPER, [A100, MI300X], on_matrix=True) == "vendor"
    assert nearest_kin(("intel", "xe2_hpg", ""), [A100, MI300X], on_matrix=True) == "none"
    assert nearest_kin(ADA, [], on_matrix=True) == "none"


def test_a_sentence_says_what_a_device_was_priced_from():
    known = {"l40s": ADA, "h100-sxm": HOPPER, "mi300x": MI300X}
    names = list(known)
    assert describe_kin(load_device("l40s"), names, known) == ""
    assert "l40s run the same ones" in describe_kin(load_device("rtx-pro-6000-server"), names, known)
    assert "instructions of b200 (tcgen05)" in describe_kin(load_device("b200"), names, known)
    foreign = describe_kin(load_device("arc-pro-b60"), names, known)
    assert "no device of this vendor (intel) was ever measured" in foreign
    assert "amd and nvidia" in foreign
