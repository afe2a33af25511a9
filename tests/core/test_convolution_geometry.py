"""Geometry of convolutions, against hand-computed sizes and against PyTorch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.convolution import Convolution, full_axes, parse_convolution, transposed_pass


def convolution(**changes: object) -> Convolution:
    usual = {
        "batch": 2, "c_in": 3, "c_out": 4, "groups": 1, "inputs": (1, 10, 12), "filters": (1, 3, 5),
        "strides": (1, 2, 1), "paddings": (0, 1, 2), "dilations": (1, 1, 1),
    }  # fmt: skip
    return Convolution(**(usual | changes))  # type: ignore[arg-type]


def test_each_axis_has_its_own_filter_stride_and_padding():
    # height (10 + 2 - 2 - 1) // 2 + 1 = 5; width (12 + 4 - 4 - 1) // 1 + 1 = 12
    assert convolution().outputs == (1, 5, 12)
    assert convolution().pass_flops == 2 * 2 * 4 * (5 * 12) * 3 * (3 * 5)


def test_dilation_spreads_the_filter():
    # a filter of 3 with dilation 4 reaches over 9
    spread = convolution(filters=(1, 3, 3), strides=(1, 1, 1), paddings=(0, 0, 0), dilations=(1, 4, 1))
    assert spread.outputs == (1, 2, 10)


def test_one_axis_is_the_width():
    assert full_axes((7,), 1) == (1, 1, 7)
    with pytest.raises(ValueError, match="at most 3"):
        full_axes((1, 2, 3, 4), 1)


def test_a_transposed_forward_is_the_data_gradient_of_the_ordinary_one():
    assert transposed_pass("forward") == "data"
    assert transposed_pass("data") == "forward"
    assert transposed_pass("weight") == "weight"


def test_two_gradients_are_two_products():
    assert convolution(computed="data_weight").num_passes == 2
    assert convolution(computed="weight").num_passes == 1


@pytest.mark.parametrize("text", ["", "n1 c3-4/1", str(convolution()).replace("forward", "sideways")])
def test_another_text_is_refused(text: str):
    with pytest.raises(ValueError, match="is not the text of a convolution"):
        parse_convolution(text)


axes = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))


@settings(max_examples=60, deadline=None)
@given(axes, axes, axes, st.tuples(*[st.integers(0, 2)] * 3), axes, st.booleans(), st.booleans())
def test_the_text_says_everything(filters, strides, inputs, paddings, dilations, is_last, has_bias):
    made = convolution(
        filters=filters, strides=strides, inputs=inputs, paddings=paddings, dilations=dilations,
        memory_format="channels_last" if is_last else "contiguous", has_bias=has_bias, computed="data",
    )  # fmt: skip
    assert parse_convolution(str(made)) == made


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(7, 12))
def test_outputs_are_those_of_pytorch(taps, stride, padding, dilation, size):
    x, w = torch.empty(1, 2, size, size, device="meta"), torch.empty(3, 2, taps, taps, device="meta")
    expected = torch.nn.functional.conv2d(x, w, stride=stride, padding=padding, dilation=dilation).shape[2:]
    made = convolution(
        inputs=(1, size, size), filters=(1, taps, taps), strides=(1, stride, stride),
        paddings=(0, padding, padding), dilations=(1, dilation, dilation),
    )  # fmt: skip
    assert made.outputs[1:] == tuple(expected)
