from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from perfcast.replays.program.strides import contiguous_strides, view_strides


@given(st.lists(st.integers(1, 4), max_size=4))
def test_strides_side_by_side_are_those_of_a_new_tensor(shape: list[int]):
    assert contiguous_strides(shape) == torch.empty(shape).stride()


@given(
    st.permutations([0, 1, 2]), st.sampled_from([(4, 6), (24,), (2, 2, 6), (2, 12), (3, 8), (6, 4), (1, 24)])
)
def test_views_of_permuted_tensors_have_the_strides_that_torch_gives(
    order: list[int], wanted: tuple[int, ...]
):
    tensor = torch.empty(2, 3, 4).permute(order)
    found = view_strides(tuple(tensor.shape), tensor.stride(), wanted)
    try:
        expected = tensor.view(wanted).stride()
    except RuntimeError:
        assert found is None
        return
    assert found is not None
    kept = [(a, b) for a, b, size in zip(found, expected, wanted, strict=True) if size > 1]
    assert all(a == b for a, b in kept)
