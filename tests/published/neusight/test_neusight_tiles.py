"""Tiles from kernel names and grids, and their look-up."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.neusight.tiles import (
    TileTable,
    elementwise_tiles,
    parse_product_tile,
    parse_product_tiles,
    product_features,
)


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("volta_sgemm_128x64_tn", (128, 64)),
        ("ampere_sgemm_32x32_sliced1x4_nn", (32, 32)),
        ("sgemm_32x32x32_NN_vec", (32, 32)),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x256_8x4_tn_align1>(Params)", (128, 256)),
        ("Cijk_Alik_Bljk_SB_MT64x128x32_MI32x32x2x1_SE", (64, 128)),
        ("sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x64x32_cublas", (128, 64)),
    ],
)
def test_a_kernel_name_tells_its_tile(name: str, tile: tuple[int, int]):
    assert parse_product_tile(name) == tile


def test_a_name_without_a_tile_is_an_error_that_quotes_it():
    with pytest.raises(InputError, match="gemv2T_kernel"):
        parse_product_tile("gemv2T_kernel")


def test_many_names_are_parsed_in_order():
    names = np.array(["volta_sgemm_128x64_tn", "volta_sgemm_32x32_tn", "volta_sgemm_128x64_tn"], dtype=object)
    assert parse_product_tiles(names).tolist() == [[128, 64], [32, 32], [128, 64]]


def test_an_elementwise_tile_is_the_next_power_of_two_of_elements_per_block():
    tiles = elementwise_tiles(np.array([5120.0, 5000.0, 7.0]), np.array([10.0, 10.0, 7.0]))
    assert tiles.tolist() == [512, 512, 1]


def table() -> TileTable:
    """The same product measured on a T4 and on a V100, and one much larger on the V100."""
    devices = (load_device("t4"), load_device("v100-pcie-32gb"))
    shape = np.array([[1, 64, 64, 64], [1, 64, 64, 64], [1, 4096, 4096, 4096]], dtype=float)
    figures = collect_study_figures(devices, np.array([0, 1, 1]))
    tiles = np.array([[32, 32], [64, 64], [128, 128]], dtype=float)
    return TileTable(np.array(["bmm"] * 3), product_features(shape, figures), tiles)


def look_up(shape: list[float], device: str) -> list[float]:
    figures = collect_study_figures((load_device(device),), np.array([0]))
    features = product_features(np.array([shape], dtype=float), figures)
    return table().look_up(np.array(["bmm"], dtype=object), features)[0].tolist()


def test_a_row_that_was_measured_gets_its_own_tile():
    assert look_up([1, 64, 64, 64], "t4") == [32, 32]
    assert look_up([1, 4096, 4096, 4096], "v100-pcie-32gb") == [128, 128]


def test_the_peak_outweighs_the_sizes_in_the_look_up():
    # A large product is nearer to the small one of its own peak than to the large one of another.
    assert look_up([1, 2100, 2100, 2100], "t4") == [32, 32]


def test_a_kernel_that_the_table_does_not_hold_has_no_tile():
    found = table().look_up(np.array(["linear"], dtype=object), np.zeros((1, 9)))
    assert np.isnan(found).all()
