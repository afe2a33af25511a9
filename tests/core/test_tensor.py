from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._prims_common import suggest_memory_format

from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.core.tensor import TensorType


@pytest.mark.parametrize(
    ("dtype", "elements", "num_bytes"),
    [
        (DType.FP64, 3, 24),
        (DType.TF32, 3, 12),
        (DType.BF16, 3, 6),
        (DType.BOOL, 3, 3),
        (DType.FP6, 4, 3),
        (DType.FP4, 3, 2),
        (DType.FP4, 0, 0),
    ],
)
def test_packed_elements_take_whole_bytes(dtype: DType, elements: int, num_bytes: int):
    assert dtype.bytes_of(elements) == num_bytes


def test_labels_find_their_element_type():
    assert all(DTYPES_BY_LABEL[dtype.label] is dtype for dtype in DType)
    assert len(DTYPES_BY_LABEL) == len(DType)


def test_an_expanded_dim_holds_one_copy_but_counts_every_element():
    expanded = TensorType((8, 128, 64), DType.FP32, (0, 64, 1))
    assert expanded.num_elements == 8 * 128 * 64
    assert expanded.num_bytes == 128 * 64 * 4


def test_a_scalar_expanded_in_all_dims_holds_one_element():
    assert TensorType((16, 16), DType.FP32, (0, 0)).num_bytes == 4


def test_an_empty_tensor_holds_nothing_whatever_its_strides():
    assert TensorType((0, 4), DType.FP32, (0, 1)).num_bytes == 0


def test_a_scalar_holds_one_element():
    assert TensorType((), DType.INT64).num_bytes == 8


@pytest.mark.parametrize(
    ("shape", "strides", "transposed"),
    [
        ((3, 4), (4, 1), False),
        ((3, 4), (1, 3), True),
        ((2, 3, 4), (12, 1, 3), True),
        ((4, 1), (1, 1), False),
        ((3, 4), (0, 1), False),
        ((4,), (1,), False),
        ((3, 4), (), False),
    ],
)
def test_transposed_means_that_the_last_but_one_dim_is_the_dense_one(shape, strides, transposed):
    assert TensorType(shape, DType.FP32, strides).is_transposed is transposed


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=5))
def test_bytes_are_those_of_the_dims_that_are_not_expanded(dims: list[tuple[int, bool]]):
    strides, dense = [], 1
    for size, is_expanded in reversed(dims):
        strides.insert(0, 0 if is_expanded else dense)
        dense *= 1 if is_expanded else size
    shape = tuple(size for size, _ in dims)
    tensor = TensorType(shape, DType.BF16, tuple(strides))
    assert tensor.num_bytes == 2 * dense
    assert tensor.num_elements == math.prod(shape)


@pytest.mark.parametrize(
    ("shape", "strides", "is_channels_last"),
    [
        ((2, 3, 4, 5), (60, 20, 5, 1), False),
        ((2, 3, 4, 5), (60, 1, 15, 3), True),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), True),
        ((8, 3, 1, 1), (3, 1, 1, 1), False),
        ((8, 3, 1, 1), (3, 1, 3, 3), True),
        ((8, 1, 3, 3), (9, 1, 3, 1), True),  # of one channel both are the same bytes, and strides tell
        ((8, 1, 3, 3), (9, 9, 3, 1), False),
        ((4, 1, 1, 1), (1, 1, 1, 1), False),
        ((2, 0, 4, 5), (0, 1, 0, 0), False),
        ((2, 3, 4), (12, 1, 3), False),
        ((2, 3, 4, 5), (), False),
    ],
)
def test_channels_last_is_told_by_strides(shape, strides, is_channels_last):
    tensor = TensorType(shape, DType.FP16, strides)
    assert tensor.is_channels_last is is_channels_last
    assert tensor.memory_format == ("channels_last" if is_channels_last else "contiguous")


@given(st.permutations([0, 1, 2, 3]), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_channels_last_means_what_pytorch_makes_new_tensors_like(order: list[int], sizes: list[int]):
    x = torch.empty([sizes[dim] for dim in order]).permute([order.index(dim) for dim in range(4)])
    x = x.expand(*x.shape)
    expected = suggest_memory_format(x) is torch.channels_last
    assert TensorType(tuple(x.shape), DType.FP32, x.stride()).is_channels_last is expected
