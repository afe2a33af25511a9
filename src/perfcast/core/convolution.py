"""Geometry of a convolution: sizes of every axis, and which of its three passes a kernel computes.

One description for all: a transposed convolution is the data gradient of an ordinary one, from the smaller
image to the larger, so that ``Convolution`` always states the ordinary one and ``computed`` what is
computed of it (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, §4).

    out = ⌊(in + 2 · padding − dilation · (filter − 1) − 1) / stride⌋ + 1        on each axis
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar, cast

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelTable
from perfcast.core.tensor import MemoryFormat

#: 'forward': outputs; 'data': gradient of the input; 'weight': of the weights; 'data_weight': both.
ConvolutionPass = Literal["forward", "data", "weight", "data_weight"]
PASSES: tuple[ConvolutionPass, ...] = ("forward", "data", "weight", "data_weight")
#: Axes of an image, outermost first; one of fewer dimensions has size 1 on the first ones.
AXES = ("depth", "height", "width")

_TRANSPOSED: Mapping[ConvolutionPass, ConvolutionPass] = {
    "forward": "data",
    "data": "forward",
    "weight": "weight",
    "data_weight": "data_weight",
}


@dataclass(frozen=True, slots=True)
class Convolution:
    """An ordinary convolution and what is computed of it; sizes of an axis are (depth, height, width).

    Attributes:
        computed: The pass.
        memory_format: In which the kernel works and its output lies.
        has_bias: Whether the bias is added (forward), or its gradient summed.
    """

    batch: int
    c_in: int
    c_out: int
    groups: int
    inputs: tuple[int, int, int]
    filters: tuple[int, int, int]
    strides: tuple[int, int, int]
    paddings: tuple[int, int, int]
    dilations: tuple[int, int, int]
    computed: ConvolutionPass = "forward"
    memory_format: MemoryFormat = "contiguous"
    has_bias: bool = False

    def __str__(self) -> str:
        """What ``parse_convolution`` reads.

        Such as ``n8 c64-128/1 i1x56x56 f1x3x3 s1x1x1 p0x1x1 d1x1x1 forward contiguous bias``.
        """
        axes = {
            "i": self.inputs,
            "f": self.filters,
            "s": self.strides,
            "p": self.paddings,
            "d": self.dilations,
        }
        sizes = " ".join(name + "x".join(map(str, values)) for name, values in axes.items())
        channels = f"c{self.c_in}-{self.c_out}/{self.groups}"
        bias = " bias" if self.has_bias else ""
        return f"n{self.batch} {channels} {sizes} {self.computed} {self.memory_format}{bias}"

    @property
    def outputs(self) -> tuple[int, int, int]:
        """Sizes of the image that the ordinary convolution makes."""
        depth, height, width = (
            (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, padding, dilation in zip(
                self.inputs, self.filters, self.strides, self.paddings, self.dilations, strict=True
            )
        )
        return depth, height, width

    @property
    def pass_flops(self) -> int:
        """2 · batch · c_out · prod(out) · (c_in / groups) · prod(filter): of each pass alike."""
        taps = math.prod(self.filters) * self.c_in // self.groups
        return 2 * self.batch * self.c_out * math.prod(self.outputs) * taps

    @property
    def num_passes(self) -> int:
        """Kernels with a product each."""
        return 2 if self.computed == "data_weight" else 1


def full_axes(values: Sequence[int], missing: int) -> tuple[int, int, int]:
    """Sizes of one to three axes as three; ``missing`` stands for the outer ones.

    Raises:
        ValueError: More than three.
    """
    if len(values) > len(AXES):
        raise ValueError(f"a convolution over {len(values)} axes: at most {len(AXES)} are known")
    depth, height, width = (*(missing,) * (len(AXES) - len(values)), *values)
    return depth, height, width


def transposed_pass(computed: ConvolutionPass) -> ConvolutionPass:
    """What a pass of a transposed convolution is of the ordinary one."""
    return _TRANSPOSED[computed]


Value = TypeVar("Value")


def square_sizes(
    inputs: Value, filters: Value, strides: Value | int = 1, paddings: Value | int = 0
) -> dict[str, Value | int]:
    """Columns of ``SIZES`` of a square image and filter, dilation 1, in numbers, arrays or expressions."""
    columns: dict[str, Value | int] = {
        f"{name}_depth": 1 for name in ("input", "filter", "stride", "dilation")
    }
    columns |= {"padding_depth": 0, "dilation_height": 1, "dilation_width": 1}
    for axis in AXES[1:]:
        columns |= {
            f"input_{axis}": inputs,
            f"filter_{axis}": filters,
            f"stride_{axis}": strides,
            f"padding_{axis}": paddings,
        }
    return columns


@dataclass(frozen=True)
class ImageSizes:
    """Products over the axes of n convolutions, shape [n] each; ``out``: of each axis, shape [3, n]."""

    inputs: Floats
    outputs: Floats
    taps: Floats
    strides: Floats
    dilations: Floats
    out: Floats

    def squares(self, side: int) -> Floats:
        """Squares of ``side`` outputs, a plane's last ones padded up."""
        depth, height, width = self.out
        return np.asarray(depth * np.ceil(height / side) * np.ceil(width / side), dtype=np.float64)


def image_sizes(kernels: KernelTable) -> ImageSizes:
    """Sizes of a table of convolutions; outputs below 1 are of filters larger than their padded input."""

    def each(name: str) -> Floats:
        return np.stack([kernels.size(f"{name}_{axis}") for axis in AXES])

    inputs, taps, strides, dilations = each("input"), each("filter"), each("stride"), each("dilation")
    out = np.floor((inputs + 2 * each("padding") - dilations * (taps - 1) - 1) / strides) + 1
    return ImageSizes(
        inputs=inputs.prod(axis=0),
        outputs=np.maximum(out, 0).prod(axis=0),
        taps=taps.prod(axis=0),
        strides=strides.prod(axis=0),
        dilations=dilations.prod(axis=0),
        out=out,
    )


_THREE = r"(\d+)x(\d+)x(\d+)"
_TEXT = re.compile(
    rf"n(\d+) c(\d+)-(\d+)/(\d+) i{_THREE} f{_THREE} s{_THREE} p{_THREE} d{_THREE} "
    r"(\w+) (contiguous|channels_last)( bias)?"
)


@lru_cache(maxsize=65536)
def parse_convolution(text: str) -> Convolution:
    """The convolution that ``str`` wrote.

    Raises:
        ValueError: Another text.
    """
    found = _TEXT.fullmatch(text)
    if found is None or found[20] not in PASSES:
        raise ValueError(f"{text!r} is not the text of a convolution")
    numbers = [int(found[at]) for at in range(1, 20)]
    batch, c_in, c_out, groups = numbers[:4]
    inputs, filters, strides, paddings, dilations = (
        full_axes(numbers[at : at + 3], 1) for at in range(4, 19, 3)
    )
    return Convolution(
        batch=batch,
        c_in=c_in,
        c_out=c_out,
        groups=groups,
        inputs=inputs,
        filters=filters,
        strides=strides,
        paddings=paddings,
        dilations=dilations,
        computed=cast(ConvolutionPass, found[20]),
        memory_format=cast(MemoryFormat, found[21]),
        has_bias=found[22] is not None,
    )
