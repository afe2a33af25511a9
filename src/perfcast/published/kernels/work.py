"""Arithmetic and least traffic of kernels in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelTable
from perfcast.cost.learned.figures import ARITHMETIC
from perfcast.published.comparison import print_part
from perfcast.published.neusight.nets import row_work


@dataclass(frozen=True)
class KernelWork:
    """Shape [n] each; every operand crosses the memory interface once."""

    flops: Floats
    traffic_bytes: Floats


def product_work(kernels: KernelTable) -> KernelWork:
    """2·batch·m·n·k flops; both operands and the result, in the arithmetic's format."""
    batch, m, n, k = (kernels.size(name) for name in ("batch", "m", "n", "k"))
    return KernelWork(2 * batch * m * n * k, _element_bytes(kernels) * batch * (m * k + k * n + m * n))


def convolution_work(kernels: KernelTable) -> KernelWork:
    """Square images and filters; 2 flops per tap, output element and input channel of the group."""
    batch, c_in, c_out, taps, size = (
        kernels.size(name) for name in ("batch", "c_in", "c_out", "filter_width", "input_width")
    )
    stride, padding, groups = (kernels.size(name) for name in ("stride_width", "padding_width", "groups"))
    output_size = np.floor((size + 2 * padding - taps) / stride) + 1
    outputs, weights = batch * c_out * output_size**2, c_out * c_in / groups * taps**2
    elements = batch * c_in * size**2 + weights + outputs
    return KernelWork(2 * outputs * c_in / groups * taps**2, _element_bytes(kernels) * elements)


def row_kernel_work(kernels: KernelTable) -> KernelWork:
    """The table's own traffic; flops per element as the NeuSight study counts them."""
    operations = kernels.word("operation")
    flops_each = {str(name): row_work(str(name))[1] for name in set(operations)}
    elements = kernels.size("num_rows") * kernels.size("row_length")
    return KernelWork(
        elements * np.array([flops_each[str(name)] for name in operations], dtype=np.float64),
        kernels.size("read_bytes") + kernels.size("written_bytes"),
    )


def _element_bytes(kernels: KernelTable) -> Floats:
    formats = kernels.word("dtype")
    width = {name: ARITHMETIC[name].bits / 8 for name in set(formats)}
    return np.array([width[name] for name in formats], dtype=np.float64)


if __name__ == "__main__":
    print_part("kernels.work", "neusight", "habitat", "li2020")
