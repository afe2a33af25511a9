"""Convolutions in 16 bits and TF32, as cuDNN and PyTorch run them: what each pass does, times how well.

    seconds = launch + Σ over the parts that a kernel has (constant · ideal seconds)

dense, grouped   an implicit product in NHWC in waves of tiles (``tiles``), ``groups`` times; of pass
                   forward  m = batch · out    n = c_out / groups   k = c_in / groups · filter
                   data     m = batch · in     n = c_in / groups    k = c_out / groups · filter / strides
                   weight   m = c_out / groups n = c_in / groups · filter   k = batch · out, split over k
                 Channels are padded to whole vectors of 16 bytes, without which there is no kernel for matrix
                 units. Groups narrower than a tile are bundled, and the zeros between them multiplied too.
                 (in NHWC, wide groups and those of no power of two have slow kernels of their own)
padding          an input whose channels are no whole vectors is copied to one whose are (images: 3 to 8)
layout           cuDNN's matrix-unit kernels work in NHWC: NCHW tensors are copied there and back
bias             PyTorch adds it to cuDNN's output by a kernel of its own, and sums its gradient by another
depthwise        no product: traffic, and multiplications one by one on ordinary units
                 (PyTorch's own kernels in NCHW, aten/native/cuda/DepthwiseConv2d.cu, or cuDNN's)

NVIDIA, "Convolutional Layers User's Guide" (implicit GEMM, Tensor Core requirements, channels to multiples
of 8 in fp16 and 4 in TF32); PyTorch, aten/src/ATen/native/Convolution.cpp (``use_cudnn_depthwise``, bias) and
ConvUtils.h (``cudnn_conv_suggest_memory_format``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.convolution import ConvolutionPass, image_sizes
from perfcast.core.kernel import KernelFamily, KernelTable, encode_words
from perfcast.cost.learned.families.products import ELEMENT_BYTES, MATRIX_UNITS
from perfcast.cost.learned.families.streaming import stream_seconds
from perfcast.cost.learned.families.tiles import Products, TileConstants, time_tiles
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures

family = KernelFamily.CONVOLUTION
feature_names = ("compute_over_memory", "depthwise", "grouped", "nhwc", "log_flops")

#: Operation of a table's row by what is computed, and the passes that it has.
CONVOLUTION_NAMES: Mapping[ConvolutionPass, str] = {
    "forward": "convolution",
    "data": "convolution_data",
    "weight": "convolution_weight",
    "data_weight": "convolution_backward",
}
OPERATIONS: Mapping[str, tuple[ConvolutionPass, ...]] = {
    "convolution": ("forward",),
    "convolution_data": ("data",),
    "convolution_weight": ("weight",),
    "convolution_backward": ("data", "weight"),
}
#: Bytes that a thread of an implicit product loads at a time: channels come in whole vectors.
_VECTOR_BYTES = 16.0
#: Channels of the narrowest tile that grouped kernels compute: narrower groups are bundled to it.
_GROUP_TILE = 32.0
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)
_TILES = replace(MATRIX_UNITS, blocks_in_flight=1e8, launch_cycles=0.0)
_WEIGHT_TILES: TileConstants = replace(_TILES, splits=_SPLITS)
#: Multiply-adds that a multiprocessor does in a cycle on ordinary units.
_LANES = 64.0
#: Of a kernel on the device.
LAUNCH_SECONDS = 3e-6


@dataclass(frozen=True)
class Shapes:
    """Sizes of n convolutions; bytes of whole tensors, flops of one pass; shape [n] each."""

    batch: Floats
    c_in: Floats
    c_out: Floats
    groups: Floats
    inputs: Floats
    outputs: Floats
    taps: Floats
    strides: Floats
    element_bytes: Floats
    is_depthwise: Flags
    is_nhwc: Flags
    has_bias: Flags

    @property
    def input_bytes(self) -> Floats:
        """Of the images."""
        return self.batch * self.c_in * self.inputs * self.element_bytes

    @property
    def output_bytes(self) -> Floats:
        """Of what the ordinary convolution writes."""
        return self.batch * self.c_out * self.outputs * self.element_bytes

    @property
    def weight_bytes(self) -> Floats:
        """Of the filters."""
        return self.c_out * self.c_in / self.groups * self.taps * self.element_bytes

    @property
    def flops(self) -> Floats:
        """Of one pass."""
        return 2 * self.batch * self.outputs * self.c_out * self.c_in / self.groups * self.taps


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Physics and features of each call.

    Raises:
        ValueError: A filter larger than its padded input.
    """
    shapes = derive_shapes(kernels)
    constants, parts = load_constants(), time_parts(kernels, figures, shapes)
    seconds = sum(
        (constants.get(name, 1.0) * values for name, values in parts.items()), np.zeros(len(kernels))
    )
    passes = num_passes(kernels)
    compute_seconds = passes * shapes.flops / figures.matrix_flops_per_second
    total_bytes = shapes.input_bytes + shapes.output_bytes + shapes.weight_bytes
    memory_seconds = np.maximum(total_bytes - figures.l2_bytes, 0.0) / figures.memory_bytes_per_second
    return Physics(
        seconds=np.maximum(LAUNCH_SECONDS + seconds, np.maximum(compute_seconds, memory_seconds)),
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        features=np.column_stack([
            np.log2((compute_seconds + 1e-9) / (total_bytes / figures.memory_bytes_per_second + 1e-9)),
            shapes.is_depthwise, shapes.groups > 1, shapes.is_nhwc, np.log2(shapes.flops),
        ]),
    )  # fmt: skip


def num_passes(kernels: KernelTable) -> Floats:
    """Products that each call computes."""
    names, which = encode_words(kernels.word("operation"))
    return np.array([len(OPERATIONS[name]) for name in names], dtype=np.float64)[which]


def derive_shapes(kernels: KernelTable) -> Shapes:
    """Sizes and bytes.

    Raises:
        ValueError: A filter larger than its padded input.
    """
    sizes = image_sizes(kernels)
    if (sizes.outputs < 1).any():
        count = int((sizes.outputs < 1).sum())
        raise ValueError(f"convolution: {count} kernels are larger than their padded input")
    formats, which = encode_words(kernels.word("dtype"))
    c_in, groups = kernels.size("c_in"), kernels.size("groups")
    return Shapes(
        batch=kernels.size("batch"),
        c_in=c_in,
        c_out=kernels.size("c_out"),
        groups=groups,
        inputs=sizes.inputs,
        outputs=sizes.outputs,
        taps=sizes.taps,
        strides=sizes.strides,
        element_bytes=np.array([ELEMENT_BYTES[name][0] for name in formats])[which],
        is_depthwise=(groups > 1) & (groups == c_in),
        is_nhwc=np.asarray(kernels.word("memory_format") == "channels_last", dtype=bool),
        has_bias=kernels.size("has_bias") > 0,
    )


def time_parts(kernels: KernelTable, figures: Figures, shapes: Shapes) -> dict[str, Floats]:
    """Ideal seconds of every part by name; 0 where a kernel has no such part."""
    names, which = encode_words(kernels.word("operation"))
    parts: dict[str, Floats] = {}
    for computed in ("forward", "data", "weight"):
        has = np.array([computed in OPERATIONS[name] for name in names], dtype=bool)[which]
        rows = np.flatnonzero(has)
        if not len(rows):
            continue
        some = Shapes(**{name: column[rows] for name, column in vars(shapes).items()})
        for name, values in _pass_parts(computed, some, figures.take(rows)).items():
            if values.any():
                parts.setdefault(name, np.zeros(len(kernels)))[rows] += values
    return parts


def _pass_parts(computed: str, s: Shapes, figures: Figures) -> dict[str, Floats]:
    rate = figures.memory_bytes_per_second
    is_grouped = (s.groups > 1) & ~s.is_depthwise
    is_dense = s.groups == 1
    product = _product_seconds(computed, s, figures)
    vector = _VECTOR_BYTES / s.element_bytes
    is_plain = s.taps == 1
    is_aligned = (s.c_in % vector == 0) & (s.c_out % vector == 0)
    l2 = figures.l2_bytes
    moved = stream_seconds(s.input_bytes + s.output_bytes, rate, l2)
    padded = np.ceil(s.c_in / vector) * vector / s.c_in
    copied = np.where(padded > 1, stream_seconds((1 + padded) * s.input_bytes, rate, l2), 0.0)
    written = stream_seconds(s.output_bytes, rate, l2)
    macs = s.flops / 2 / (figures.num_sms * figures.clock_hertz * _LANES)
    is_large = s.taps > 25
    parts = {
        f"dense.{computed}.1": np.where(is_dense & is_aligned & is_plain, product, 0.0),
        f"dense.{computed}.n": np.where(is_dense & is_aligned & ~is_plain, product, 0.0),
        f"dense.{computed}.odd": np.where(is_dense & ~is_aligned, product, 0.0),
        "padding": np.where(is_dense & ~s.is_depthwise, copied, 0.0),
        f"layout.{computed}": np.where(~s.is_nhwc & ~s.is_depthwise, 2 * moved, 0.0),
        "bias.forward": np.where(s.has_bias & (computed == "forward"), 2 * written, 0.0),
        "bias.weight": np.where(s.has_bias & (computed == "weight"), written, 0.0),
    }
    width = s.c_in / s.groups
    is_regular = np.log2(width) % 1 == 0
    kinds = (
        ("narrow", is_regular & (width < 64)),
        ("wide", is_regular & (width >= 64)),
        ("odd", ~is_regular),
    )
    for layout, of_layout in (("nhwc", s.is_nhwc), ("nchw", ~s.is_nhwc)):
        for kind, of_kind in kinds:
            chosen = is_grouped & of_layout & of_kind
            parts[f"grouped.{layout}.{computed}.{kind}"] = np.where(chosen, product, 0.0)
        chosen = s.is_depthwise & of_layout
        parts[f"depthwise.{layout}.{computed}.traffic"] = np.where(chosen, moved, 0.0)
        parts[f"depthwise.{layout}.{computed}.macs"] = np.where(chosen & ~is_large, macs, 0.0)
        parts[f"depthwise.{layout}.{computed}.macs_large"] = np.where(chosen & is_large, macs, 0.0)
    return parts


def _product_seconds(computed: str, s: Shapes, figures: Figures) -> Floats:
    """Waves of tiles of the implicit product."""
    vector = _VECTOR_BYTES / s.element_bytes
    width_in, width_out = s.c_in / s.groups, s.c_out / s.groups
    bundle = np.where(
        s.groups > 1, np.clip(np.floor(_GROUP_TILE / np.maximum(width_in, width_out)), 1.0, s.groups), 1.0
    )
    groups = s.groups / bundle
    c_in = np.ceil(width_in * bundle / vector) * vector
    c_out = np.ceil(width_out * bundle / vector) * vector
    pixels = s.batch * s.outputs
    if computed == "forward":
        m, n, k = pixels, c_out, c_in * s.taps
        a_bytes, b_bytes, c_bytes = s.input_bytes, s.weight_bytes, s.output_bytes
    elif computed == "data":
        m, n, k = s.batch * s.inputs, c_in, c_out * np.maximum(s.taps / s.strides, 1.0)
        a_bytes, b_bytes, c_bytes = s.output_bytes, s.weight_bytes, s.input_bytes
    else:
        m, n, k = c_out, c_in * s.taps, pixels
        a_bytes, b_bytes, c_bytes = s.output_bytes, s.input_bytes, s.weight_bytes
    products = Products(
        batch=groups,
        m=m,
        n=n,
        k=k,
        a_bytes=a_bytes / (groups * m * k),
        b_bytes=b_bytes / (groups * n * k),
        c_bytes=c_bytes / (groups * m * n),
        resident=np.zeros(len(m)),
        flops_per_second=figures.matrix_flops_per_second * figures.sustained_share,
        operand_share=figures.operand_share,
        memory_bytes_per_second=figures.memory_bytes_per_second,
        num_sms=figures.num_sms,
        clock_hertz=figures.clock_hertz,
        l2_bytes=figures.l2_bytes,
    )
    return time_tiles(products, _WEIGHT_TILES if computed == "weight" else _TILES).seconds


@cache
def load_constants() -> Mapping[str, float]:
    """Constant of each part, from ``convolution_narrow.toml``; 1 for one that is not listed."""
    path = resources.files("perfcast.cost.learned.families") / "convolution_narrow.toml"
    return dict(tomllib.loads(path.read_text(encoding="utf-8"))["constants"])
