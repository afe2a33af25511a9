"""Convolutions: an implicit product, two forms of Winograd's algorithm, or a direct kernel; the fastest.

With ``out`` pixels an axis, T₂ = batch · ⌈out / 2⌉² and T₄ = batch · ⌈out / 4⌉² squares of outputs::

    implicit   C[m, n] = A[m, k] · B[k, n], ``groups`` times, in waves of tiles (``tiles``)
               m = batch · out²    n = c_out / groups    k = c_in / groups · kernel_size²
    fused      F(2×2, 3×3) in one kernel: 16 multiplications for 4 outputs in place of 36, so the product of
               m = 4 · T₂ and k = 4 · c_in
    spread     F(4×4, 3×3) in several kernels: 36 products of m = T₄, n = c_out, k = c_in, and the tensors
               that go out to memory and come back between them, 36 / 16 of the input and of the output
    direct     for several groups: ordinary arithmetic, each thread an output; traffic or multiplications

Winograd's forms are for 3×3 kernels with stride 1 in one group, in fp32 on ordinary arithmetic (Lavin and
Gray, CVPR 2016). A backward pass computes the gradients of input and weights, two convolutions' worth.

Calls of PyTorch in fp32 were timed one by one with their launch inside: the device waits for the host before
the kernel (``_EAGER_BASE_SECONDS``). Within a step the host's own model says when it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.convolution import image_sizes
from perfcast.core.kernel import KernelFamily, KernelTable, encode_words
from perfcast.cost.learned.families.products import ELEMENT_BYTES, MATRIX_UNITS
from perfcast.cost.learned.families.tiles import Products, TileConstants, TileTimes, time_tiles
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures

family = KernelFamily.CONVOLUTION

feature_names = (
    "implicit_over_fused", "spread_over_fused", "busy_over_base", "algorithm", "squares_of_4_used",
    "squares_of_2_used", "blocks_per_sm", "fill_implicit", "fill_fused", "fill_spread", "outputs_of_128_used",
    "outputs_of_32_used", "inputs_of_8_used", "compute_over_memory", "spread_compute_over_memory",
    "log_input_bytes", "log_output_bytes", "log_weight_bytes", "log_spread_bytes", "log_batch", "log_c_in",
    "log_c_out", "log_out_size",
)  # fmt: skip

#: Fitted by least squares on a smoothed absolute log(measured / seconds) to fp32 convolutions of PyTorch on
#: P4, P100, V100 and T4, with two scalars a device (peak, base) beside them that were drawn to zero and
#: then dropped.
_IMPLICIT = TileConstants(
    launch_seconds=0.0, launch_cycles=0.0, start_cycles=969, cycles_per_k=5.0,
    half_intensity=7.69, sustained_scale=0.694,
    dram_share=0.75, l2_bytes_per_cycle=60.0, blocks_in_flight=1e8, reduction_cycles=0.0,
    tiles=((128, 128), (128, 64), (128, 32)), splits=(1,),
)  # fmt: skip
#: Few blocks are not taken to starve the memory: the weights would then arrive sooner in a larger batch.
_IMPLICIT_ON_MATRIX_UNITS = replace(MATRIX_UNITS, blocks_in_flight=1e8)
_FUSED = TileConstants(
    launch_seconds=0.0, launch_cycles=0.0, start_cycles=3330, cycles_per_k=8.98,
    half_intensity=0.658, sustained_scale=0.553,
    dram_share=0.75, l2_bytes_per_cycle=60.0, blocks_in_flight=1e8, reduction_cycles=0.0,
    tiles=((128, 128), (128, 64), (128, 32)), splits=(1,),
)  # fmt: skip
_SPREAD = TileConstants(
    launch_seconds=0.0, launch_cycles=0.0, start_cycles=1010, cycles_per_k=2.19,
    half_intensity=1.93, sustained_scale=0.688,
    dram_share=0.75, l2_bytes_per_cycle=60.0, blocks_in_flight=1e8, reduction_cycles=0.0,
    tiles=((128, 128), (128, 64), (64, 64), (128, 32), (32, 128)), splits=(1,),
)  # fmt: skip
_SPREAD_BASE_SECONDS = 102e-6
_SPREAD_TRAFFIC = 0.408
_EAGER_BASE_SECONDS = 152e-6
_BASE_SECONDS = 3e-6
_MEMORY_EFFICIENCY = 0.75
#: Not fitted: grouped kernels reuse little, and reach an eighth of ordinary arithmetic.
_DIRECT_SHARE = 0.125
#: Of F(4×4, 3×3), the largest form in use: 36 multiplications for 16 outputs in place of 144.
_WINOGRAD_SAVING = 4.0


@dataclass(frozen=True)
class Shapes:
    """Sizes derived from the table; arrays of shape [n]; bytes are of whole tensors."""

    outputs: Floats
    squares_of_2: Floats
    squares_of_4: Floats
    flops: Floats
    input_bytes: Floats
    output_bytes: Floats
    weight_bytes: Floats
    element_bytes: Floats
    is_winograd: Flags


@dataclass(frozen=True)
class Algorithms:
    """Seconds of each algorithm, infinite where it does not apply, and the tiles behind them."""

    implicit: Floats
    fused: Floats
    spread: Floats
    direct: Floats
    tiles: tuple[TileTimes, TileTimes, TileTimes]

    @property
    def all(self) -> Floats:
        """Shape [4, n]."""
        return np.stack([self.implicit, self.fused, self.spread, self.direct])


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Physics and features of each call.

    Raises:
        ValueError: A kernel larger than its padded input.
    """
    shapes = derive_shapes(kernels, figures)
    algorithms = time_algorithms(kernels, figures, shapes)
    eager = (kernels.word("framework") == "pytorch") & (kernels.word("dtype") == "fp32")
    eager = eager & (not kernels.is_cold)
    base = np.where(eager, _EAGER_BASE_SECONDS, _BASE_SECONDS)
    passes = np.where(_is_backward(kernels), 2.0, 1.0)
    saving = np.where(shapes.is_winograd, _WINOGRAD_SAVING, 1.0)
    compute_seconds = passes * shapes.flops / saving / figures.matrix_flops_per_second
    total_bytes = shapes.input_bytes + shapes.output_bytes + shapes.weight_bytes
    memory_seconds = np.maximum(total_bytes - figures.l2_bytes, 0.0) / figures.memory_bytes_per_second
    seconds = base + passes * algorithms.all.min(axis=0)
    return Physics(
        seconds=np.maximum(seconds, np.maximum(compute_seconds, memory_seconds)),
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        features=_features(kernels, shapes, algorithms, base),
    )


def derive_shapes(kernels: KernelTable, figures: Figures) -> Shapes:
    """Outputs, squares, flops and bytes.

    Raises:
        ValueError: A kernel larger than its padded input.
    """
    batch, c_in, c_out, groups = (kernels.size(name) for name in ("batch", "c_in", "c_out", "groups"))
    sizes = image_sizes(kernels)
    if (sizes.outputs < 1).any():
        count = int((sizes.outputs < 1).sum())
        raise ValueError(f"convolution: {count} kernels are larger than their padded input")
    formats, which = encode_words(kernels.word("dtype"))
    element = np.array([ELEMENT_BYTES[name][0] for name in formats])[which]
    weights = c_out * c_in / groups * sizes.taps
    is_3_by_3 = (kernels.size("filter_height") == 3) & (kernels.size("filter_width") == 3)
    is_dense = (sizes.strides == 1) & (sizes.dilations == 1) & (groups == 1)
    plain = is_3_by_3 & (sizes.taps == 9) & is_dense & (element == 4.0)
    return Shapes(
        outputs=batch * sizes.outputs,
        squares_of_2=batch * sizes.squares(2),
        squares_of_4=batch * sizes.squares(4),
        flops=2 * batch * sizes.outputs * weights,
        input_bytes=batch * c_in * sizes.inputs * element,
        output_bytes=batch * c_out * sizes.outputs * element,
        weight_bytes=weights * element,
        element_bytes=element,
        is_winograd=plain & ~figures.uses_matrix_units,
    )


def time_algorithms(kernels: KernelTable, figures: Figures, shapes: Shapes) -> Algorithms:
    """The four algorithms of the module's docstring."""
    c_in, c_out, groups = (kernels.size(name) for name in ("c_in", "c_out", "groups"))
    one = np.ones(len(kernels))
    k = c_in / groups * image_sizes(kernels).taps
    gathered = shapes.input_bytes / (groups * shapes.outputs * k)  # of memory, for an element of A
    implicit = _time_implicit(
        _products(figures, shapes, groups, shapes.outputs, c_out / groups, k, gathered), figures
    )
    fused = time_tiles(
        _products(figures, shapes, one, 4 * shapes.squares_of_2, c_out, 4 * c_in, shapes.element_bytes / 4),
        _FUSED,
    )
    spread = time_tiles(
        _products(figures, shapes, 36 * one, shapes.squares_of_4, c_out, c_in, shapes.element_bytes), _SPREAD
    )
    rate = figures.memory_bytes_per_second * _MEMORY_EFFICIENCY
    tensors = shapes.input_bytes + shapes.output_bytes + shapes.weight_bytes
    moved = tensors + _spread_bytes(kernels, shapes)
    vector_rate = figures.vector_flops_per_second * _DIRECT_SHARE
    direct = np.maximum(tensors / rate, shapes.flops / vector_rate)
    return Algorithms(
        implicit=implicit.seconds - implicit.launch,
        fused=np.where(shapes.is_winograd, fused.seconds, np.inf),
        spread=np.where(
            shapes.is_winograd, spread.seconds + _SPREAD_TRAFFIC * moved / rate + _SPREAD_BASE_SECONDS, np.inf
        ),
        direct=np.where(groups > 1, direct, np.inf),
        tiles=(implicit, fused, spread),
    )


def _time_implicit(products: Products, figures: Figures) -> TileTimes:
    """Tiles of the units that compute the format."""
    on_matrix, on_vector = time_tiles(products, _IMPLICIT_ON_MATRIX_UNITS), time_tiles(products, _IMPLICIT)
    chosen = figures.uses_matrix_units
    return TileTimes(
        **{
            name: np.where(chosen, column, getattr(on_vector, name))
            for name, column in vars(on_matrix).items()
        }
    )


def _products(
    figures: Figures,
    shapes: Shapes,
    batch: Floats,
    m: Floats,
    n: Floats,
    k: Floats,
    a_bytes: Floats,
) -> Products:
    return Products(
        batch=batch,
        m=m,
        n=n,
        k=k,
        a_bytes=a_bytes,
        b_bytes=shapes.element_bytes,
        c_bytes=shapes.element_bytes,
        resident=np.zeros(len(m)),
        flops_per_second=figures.matrix_flops_per_second * figures.sustained_share,
        operand_share=figures.operand_share,
        memory_bytes_per_second=figures.memory_bytes_per_second,
        num_sms=figures.num_sms,
        clock_hertz=figures.clock_hertz,
        l2_bytes=figures.l2_bytes,
    )


def _spread_bytes(kernels: KernelTable, shapes: Shapes) -> Floats:
    """Transformed input, output and weights, each between two kernels."""
    c_in, c_out = kernels.size("c_in"), kernels.size("c_out")
    return shapes.element_bytes * 36 * (shapes.squares_of_4 * (c_in + c_out) + c_in * c_out)


def _is_backward(kernels: KernelTable) -> Flags:
    return np.char.find(kernels.word("operation").astype(str), "backward") >= 0


def _features(kernels: KernelTable, shapes: Shapes, algorithms: Algorithms, base: Floats) -> Floats:
    def log_ratio(over: Floats, under: Floats) -> Floats:
        return np.clip(np.log2(np.clip(over, 1e-15, 1e8) / np.clip(under, 1e-15, 1e8)), -20, 20)

    def used(values: Floats, block: int) -> Floats:
        return np.asarray(values / (block * np.ceil(values / block)), dtype=np.float64)

    implicit, fused, spread = algorithms.tiles
    batch, c_in, c_out = (kernels.size(name) for name in ("batch", "c_in", "c_out"))
    seconds = algorithms.all
    columns = (
        log_ratio(algorithms.implicit, algorithms.fused),
        log_ratio(algorithms.spread, algorithms.fused),
        log_ratio(seconds.min(axis=0), base),
        seconds.argmin(axis=0),
        shapes.outputs / (16 * shapes.squares_of_4),
        shapes.outputs / (4 * shapes.squares_of_2),
        np.log2(implicit.blocks_per_sm),
        *(t.blocks_per_sm / np.ceil(t.blocks_per_sm) for t in (implicit, fused, spread)),
        used(c_out, 128),
        used(c_out, 32),
        used(c_in, 8),
        log_ratio(implicit.compute, implicit.memory),
        log_ratio(spread.compute, spread.memory),
        np.log2(shapes.input_bytes),
        np.log2(shapes.output_bytes),
        np.log2(shapes.weight_bytes),
        np.log2(_spread_bytes(kernels, shapes)),
        np.log2(batch),
        np.log2(c_in),
        np.log2(c_out),
        0.5 * np.log2(shapes.outputs / batch),
    )
    return np.column_stack(columns)
