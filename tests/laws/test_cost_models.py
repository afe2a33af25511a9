"""Of every cost model that prices operations: bounds, growth, faster devices, intervals, company."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import elementwise, matmul
from laws.drawn import arrays, seeds
from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.learned.streams import streams_at_full_rate
from perfcast.cost.model import CostModel, least_seconds, roofline_seconds
from perfcast.cost.roofline import Roofline

MODELS: Sequence[CostModel] = (Roofline(), LearnedCost(), LearnedCost(framework="vllm"))
DEVICES = sorted(name for name, entry in load_device_entries().items() if not entry.device.is_cpu)
models = st.sampled_from(MODELS)
devices = st.sampled_from(DEVICES).map(load_device)
#: Operations of one array.
ROWS = 100


def precision_of(device: Device) -> DType:
    wanted = (DType.BF16, DType.FP16, DType.FP32)
    return next(
        d for d in wanted if d in device.matrix_flops_per_second or d in device.vector_flops_per_second
    )


def sizes(draw: np.random.Generator, low: float, high: float) -> list[int]:
    return np.round(2.0 ** draw.uniform(low, high, ROWS)).astype(int).tolist()


def products(draw: np.random.Generator, dtype: DType) -> list[tuple[int, int, int]]:
    return list(zip(sizes(draw, 0, 14), sizes(draw, 3, 14), sizes(draw, 3, 14), strict=True))


def mixed(draw: np.random.Generator, dtype: DType) -> list[Operation]:
    made = [matmul(m, n, k, dtype) for m, n, k in products(draw, dtype)]
    return made + [elementwise(size, dtype) for size in sizes(draw, 0, 28)]


def bound(operations: Sequence[Operation], device: Device, *, at_highest_clock: bool = False) -> np.ndarray:
    """The datasheet's bound of compute and memory.

    Boards whose streaming kernels were never measured alone are fitted to whole steps, in which the cache
    holds what the kernel before wrote: their memory moves what is beyond it.
    """
    least = (least_seconds if at_highest_clock else roofline_seconds)(operations, device)
    if not streams_at_full_rate(device):
        return least
    traffic = np.array([operation.memory_traffic_bytes for operation in operations], dtype=np.float64)
    beyond = np.maximum(traffic - device.l2_bytes, 0) / device.memory_bytes_per_second
    streams = [operation.name == "add" for operation in operations]
    return np.where(streams, beyond, least)


@arrays(6, share=0.3)
@given(models, devices, seeds)
def test_nothing_beats_the_roofline_and_intervals_hold_the_estimate(
    model: CostModel, device: Device, seed: int
):
    operations = mixed(np.random.default_rng(seed), precision_of(device))
    found = model.estimate(operations, device)
    assert np.isfinite(found.seconds_high).all()
    assert (found.seconds > 0).all()
    assert (found.seconds >= bound(operations, device) * (1 - 1e-12)).all()
    if device.status != "announced":
        least = bound(operations, device, at_highest_clock=True)
        assert (found.seconds_low >= least * (1 - 1e-12)).all()
    assert (found.seconds_low <= found.seconds).all()
    assert (found.seconds <= found.seconds_high).all()


@arrays(4, share=0.3)
@given(models, devices, seeds)
def test_more_rows_and_elements_never_take_less(model: CostModel, device: Device, seed: int):
    draw, dtype = np.random.default_rng(seed), precision_of(device)
    shapes, lengths = products(draw, dtype), sizes(draw, 0, 28)
    more = [1 + int(size * part) for size, part in zip(lengths, draw.random(ROWS), strict=True)]
    rows = [1 + int(m * part) for (m, _, _), part in zip(shapes, draw.random(ROWS), strict=True)]
    small = [matmul(*shape, dtype) for shape in shapes] + [elementwise(size, dtype) for size in lengths]
    large = [matmul(m + extra, n, k, dtype) for (m, n, k), extra in zip(shapes, rows, strict=True)]
    large += [elementwise(size + extra, dtype) for size, extra in zip(lengths, more, strict=True)]
    few, many = (model.estimate(operations, device).seconds for operations in (small, large))
    assert (many >= few * (1 - 1e-12)).all()


@arrays(3, share=0.3)
@given(devices, seeds)
def test_of_the_roofline_more_of_anything_never_takes_less(device: Device, seed: int):
    draw, dtype = np.random.default_rng(seed), precision_of(device)
    shapes = products(draw, dtype)
    grown = [
        tuple(size + int(draw.integers(0, 2) * size * draw.random()) for size in shape) for shape in shapes
    ]
    few, many = (
        Roofline().estimate([matmul(*shape, dtype) for shape in some], device) for some in (shapes, grown)
    )
    for name in ("seconds", "seconds_low", "seconds_high"):
        assert (getattr(many, name) >= getattr(few, name) * (1 - 1e-12)).all()


def faster(device: Device, memory: float, compute: float) -> Device:
    return replace(
        device,
        memory_bytes_per_second=device.memory_bytes_per_second * memory,
        matrix_flops_per_second={k: v * compute for k, v in device.matrix_flops_per_second.items()},
        vector_flops_per_second={k: v * compute for k, v in device.vector_flops_per_second.items()},
    )


@arrays(4, share=0.3)
@given(devices, seeds, st.floats(1, 4), st.floats(1, 4))
def test_faster_figures_are_never_slower_by_the_roofline(
    device: Device, seed: int, memory: float, compute: float
):
    operations = mixed(np.random.default_rng(seed), precision_of(device))
    slow, fast = (
        Roofline().estimate(operations, one).seconds for one in (device, faster(device, memory, compute))
    )
    assert (fast <= slow * (1 + 1e-12)).all()


@arrays(2, share=0.3)
@given(models, devices, seeds)
def test_an_operations_price_depends_neither_on_order_nor_on_company(
    model: CostModel, device: Device, seed: int
):
    draw = np.random.default_rng(seed)
    operations = mixed(draw, precision_of(device))
    order = draw.permutation(len(operations))
    together = model.estimate(operations, device).seconds
    turned = model.estimate([operations[i] for i in order], device).seconds
    assert turned.tolist() == together[order].tolist()
    some = order[:10]
    assert model.estimate([operations[i] for i in some], device).seconds.tolist() == together[some].tolist()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_device_with_more_memory_prices_the_same(model: CostModel):
    device = load_device("h100-sxm")
    operations = mixed(np.random.default_rng(0), DType.BF16)
    larger = replace(device, memory_bytes=2 * device.memory_bytes)
    assert (
        model.estimate(operations, larger).seconds.tolist()
        == model.estimate(operations, device).seconds.tolist()
    )
