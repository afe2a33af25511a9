"""By hand: ten multiprocessors at 1 GHz, 1 TFLOP/s, 100 GB/s, a cache of 1 MB; tiles of 64 × 64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.cost.learned.families import products as product_family
from perfcast.cost.learned.families.tiles import Products, TileConstants, TileTimes, time_tiles

ONE_TILE = TileConstants(
    launch_seconds=2e-6, launch_cycles=1000, start_cycles=100, cycles_per_k=1.0, half_intensity=0.0,
    sustained_scale=1.0, dram_share=1.0, l2_bytes_per_cycle=1e6, blocks_in_flight=1e9, reduction_cycles=0.0,
    tiles=((64, 64),), splits=(1,),
)  # fmt: skip


def products(count: int = 1, **changes: float) -> Products:
    figures = {
        "batch": 1, "m": 64, "n": 64, "k": 1024, "a_bytes": 2, "b_bytes": 2, "c_bytes": 2, "resident": 1,
        "flops_per_second": 1e12, "memory_bytes_per_second": 100e9, "num_sms": 10, "clock_hertz": 1e9,
        "l2_bytes": 1e9, "operand_share": 1,
    }  # fmt: skip
    return Products(**{name: np.full(count, float(v)) for name, v in (figures | changes).items()})


def time(constants: TileConstants = ONE_TILE, **changes: float) -> TileTimes:
    return time_tiles(products(**changes), constants)


def test_units_that_read_half_as_much_in_a_cycle_need_half_the_intensity():
    constants = replace(ONE_TILE, half_intensity=32.0)
    assert time(constants).compute == pytest.approx(2 * time(ONE_TILE).compute)
    assert time(constants, operand_share=0.5).compute == pytest.approx(1.5 * time(ONE_TILE).compute)


def test_one_tile_takes_one_multiprocessor_s_time():
    # 2 · 64 · 64 · 1024 flops at a tenth of 1 TFLOP/s
    assert time().compute[0] == pytest.approx(2 * 64 * 64 * 1024 / 1e11)
    assert (time().waves[0], time().blocks_per_sm[0]) == (1, pytest.approx(0.1))


def test_tiles_of_one_wave_cost_what_one_tile_costs():
    assert time(n=640).compute[0] == time().compute[0]
    assert time(n=640).waves[0] == 1


def test_one_extra_tile_costs_a_whole_wave():
    assert time(n=704).waves[0] == 2
    assert time(n=704).compute[0] == pytest.approx(2 * time(n=640).compute[0])
    assert time(n=641).compute[0] == time(n=704).compute[0], "a tile's edge is computed in full"


def test_a_batch_fills_the_waves_like_further_tiles():
    assert time(batch=11).compute[0] == time(n=704).compute[0]


def test_a_split_shortens_a_product_of_few_tiles_and_pays_a_reduction():
    split = replace(ONE_TILE, splits=(1, 4), reduction_cycles=50)
    times = time(split, k=8192)
    assert times.split[0] == 4
    assert times.compute[0] == pytest.approx(2 * 64 * 64 * 2048 / 1e11)
    whole = time(k=8192)
    assert times.seconds[0] < whole.seconds[0]
    costly = replace(split, reduction_cycles=1e9)
    assert time(costly, k=8192).split[0] == 1


def test_a_slice_of_k_is_never_shorter_than_the_loop_that_it_feeds():
    split = replace(ONE_TILE, splits=(1, 32))
    assert time(split, k=512).split[0] == 1, "512 / 32 is shorter than 64"
    assert time(split, k=2048).split[0] == 32


def test_a_large_tile_uses_the_units_better():
    times = time(replace(ONE_TILE, half_intensity=32.0))
    assert times.compute[0] == pytest.approx(2 * time().compute[0])  # intensity 64 · 64 / 128 = 32


def test_resident_weights_do_not_come_from_memory():
    assert time(resident=1).memory[0] == 0
    assert time(resident=0).memory[0] == pytest.approx(2 * 64 * 1024 / 100e9)
    assert time(resident=0.5).memory[0] == pytest.approx(64 * 1024 / 100e9)


def test_activations_that_leave_the_cache_come_from_memory():
    a_bytes, c_bytes = 2 * 6400 * 1024, 2 * 6400 * 64
    times = time(m=6400, l2_bytes=2e6)
    assert times.memory[0] == pytest.approx((a_bytes + c_bytes - 1e6) / 100e9, rel=1e-6)


def test_few_blocks_do_not_saturate_the_memory():
    times = time(replace(ONE_TILE, blocks_in_flight=2.0), resident=0)
    assert times.memory[0] == pytest.approx(5 * 2 * 64 * 1024 / 100e9)  # 0.1 blocks per SM · 2: a fifth


def test_the_cache_delivers_each_operand_once_for_every_tile_that_reads_it():
    times = time(replace(ONE_TILE, l2_bytes_per_cycle=10.0), n=640)
    read = 2 * 64 * 1024 * 10 + 2 * 640 * 1024 + 2 * 64 * 640  # A for each of ten columns, B once, C
    assert times.cache[0] == pytest.approx(read / (10 * 1e9 * 10.0))


def test_a_block_alone_waits_for_its_start_and_for_each_step_of_k():
    assert time().latency[0] == pytest.approx((100 + 1024) / 1e9)


def test_the_launch_takes_the_host_s_time_and_cycles_of_the_device():
    assert time().launch[0] == pytest.approx(2e-6 + 1000 / 1e9)
    assert time(clock_hertz=2e9).launch[0] == pytest.approx(2e-6 + 1000 / 2e9)
    assert time().seconds[0] > time().launch[0] + time().compute[0]


def test_no_products_take_no_time():
    assert len(time_tiles(products(0), ONE_TILE).seconds) == 0


def test_many_products_are_timed_like_each_alone():
    draw = np.random.default_rng(0)
    many = replace(products(9000), **{axis: np.round(2 ** draw.uniform(0, 12, 9000)) for axis in "mnk"})
    together = time_tiles(many, product_family.MATRIX_UNITS)
    for index in (0, 8191, 8192, 8999):
        alone = time_tiles(many.rows(slice(index, index + 1)), product_family.MATRIX_UNITS)
        assert alone.seconds[0] == pytest.approx(together.seconds[index], rel=1e-6)
        assert alone.tile_m[0] == together.tile_m[index]


sizes = st.integers(1, 8192)
both_units = st.sampled_from([product_family.MATRIX_UNITS, product_family.VECTOR_UNITS])


@settings(max_examples=80, deadline=None)
@given(m=sizes, n=sizes, k=sizes, constants=both_units, resident=st.sampled_from([0.0, 0.5, 1.0]))
def test_the_chosen_candidate_is_the_fastest(m, n, k, constants, resident):
    chosen = time(constants, m=m, n=n, k=k, resident=resident)
    alone = [
        time(replace(constants, tiles=(tile,), splits=(split,)), m=m, n=n, k=k, resident=resident).seconds[0]
        for tile in constants.tiles
        for split in constants.splits
    ]
    assert chosen.seconds[0] == pytest.approx(min(alone), rel=1e-6)
    assert (chosen.tile_m[0], chosen.tile_n[0]) in constants.tiles
    assert chosen.split[0] in constants.splits


@settings(max_examples=80, deadline=None)
@given(m=sizes, n=sizes, k=sizes, constants=both_units)
def test_no_product_is_faster_than_its_flops_at_the_sustained_rate_of_the_best_tile(m, n, k, constants):
    times = time(constants, m=m, n=n, k=k)
    assert times.seconds[0] >= 2 * m * n * k / (1e12 * constants.sustained_scale) * (1 - 1e-6)
    assert times.seconds[0] >= max(times.compute[0], times.memory[0], times.cache[0], times.latency[0])
