"""What a small step reserves, and when it fits beside the context."""

from __future__ import annotations

import pytest

from builders import elementwise, made_up_device
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.errors import InputError
from perfcast.memory_use.reserved import context_of, reserve_memory
from perfcast.units import GIB, MIB

ANY_TYPE = TensorType((1,), DType.FP32, (1,))


def graph() -> Graph:
    """A weight of 100 MiB, and an activation of 50 MiB that lives for one node."""
    storages = (
        Storage(100 * MIB, Category.PARAMETER, -1, None),
        Storage(50 * MIB, Category.ACTIVATION, 0, 0),
    )
    nodes = (Node(0, Phase.FORWARD, "", (0,), (1,)), Node(0, Phase.FORWARD, "", (0,), (0,)))
    tensors = (Tensor(ANY_TYPE, 0), Tensor(ANY_TYPE, 1))
    return Graph(nodes, (elementwise(1),), tensors, storages)


def test_what_is_reserved_holds_every_tensor_and_the_context_is_apart() -> None:
    reserved = reserve_memory(graph(), made_up_device(memory_bytes=8 * GIB))
    assert reserved is not None
    assert reserved.peak_bytes == 150 * MIB  # both are over 10 MiB: segments of whole 2 MiB
    assert reserved.total_bytes == 150 * MIB + context_of(made_up_device()).num_bytes
    assert reserved.fits
    assert len(reserved.step_starts) == 3
    assert max(reserved.reserved_bytes) == reserved.peak_bytes
    assert all(a <= r for a, r in zip(reserved.allocated_bytes, reserved.reserved_bytes, strict=True))


@pytest.mark.parametrize(("spare_bytes", "fits"), [(0, True), (-1, False)])
def test_a_step_fits_if_segments_and_context_do(spare_bytes: int, fits: bool) -> None:
    context = context_of(made_up_device()).num_bytes
    device = made_up_device(memory_bytes=150 * MIB + context + spare_bytes)
    reserved = reserve_memory(graph(), device)
    assert reserved is not None
    assert reserved.fits is fits
    assert reserved.total_bytes == 150 * MIB + context


def test_settings_that_refer_to_the_capacity_are_simulated_within_it() -> None:
    device = made_up_device(memory_bytes=8 * GIB)
    reserved = reserve_memory(graph(), device, "garbage_collection_threshold:0.8")
    assert reserved is not None
    assert (reserved.fits, reserved.settings) == (True, "garbage_collection_threshold:0.8")


def test_settings_that_pytorch_refuses_are_an_input_error() -> None:
    with pytest.raises(InputError, match="max_split_size"):
        reserve_memory(graph(), made_up_device(), "max_split_size:1")


def test_a_processor_has_no_caching_allocator_and_amd_no_measured_context() -> None:
    assert reserve_memory(graph(), made_up_device(vendor="cpu")) is None
    assert context_of(made_up_device(vendor="amd")).num_bytes == 0
