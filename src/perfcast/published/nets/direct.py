"""Nets that answer a kernel's latency straight from its sizes and four figures of the device.

Inputs, shifted and scaled to mean 0 and deviation 1 over the training rows: the sizes, then bandwidth,
memory, multiprocessors and fp32 peak. Output: milliseconds. Loss: mean |t − p| / t. (Yu, Gao,
Golikov, Pekhimenko: "Habitat: A Runtime-Based Computational Performance Predictor for Deep Neural Network
Training", USENIX ATC 2021, in the form that the NeuSight study trained.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Objects
from perfcast.core.convolution import square_sizes
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.published.comparison import print_part
from perfcast.published.kernels.figures import StudyFigures
from perfcast.published.nets.outputs import mlp_outputs
from perfcast.published.nets.store import read_part
from perfcast.units import MILLI

WIDTH = 512

#: Sizes of a kernel in the order in which the nets see them.
SIZES_SEEN: Mapping[KernelFamily, tuple[str, ...]] = {
    KernelFamily.PRODUCT: ("batch", "m", "k", "n"),
    KernelFamily.CONVOLUTION: (
        "batch", "c_in", "c_out", "filter_width", "input_width", "stride_width", "padding_width",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and deviation of each input, shape [f]."""

    mean: Floats
    deviation: Floats

    def apply(self, inputs: Floats) -> Floats:
        """Inputs [n, f] to mean 0 and deviation 1."""
        return (inputs - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class DirectNet:
    """A trained net of linear layers."""

    weights: Mapping[str, NDArray[np.float32]]
    scaling: Scaling

    def predict(self, shape: Floats, figures: StudyFigures) -> Floats:
        """Seconds of kernels of these sizes [n, s]; 0 where the net answers less."""
        outputs = mlp_outputs(self.weights, self.scaling.apply(direct_inputs(shape, figures)))
        return np.maximum(outputs[:, 0] * MILLI, 0.0)


def direct_inputs(shape: Floats, figures: StudyFigures) -> Floats:
    """Sizes, then the device's figures; [n, s + 4]."""
    device = (
        figures.gigabytes_per_second,
        figures.memory_gigabytes,
        figures.num_sms,
        figures.matrix_gigaflops,
    )
    return np.concatenate([shape, np.stack(device, axis=1)], axis=1)


def sizes_seen(kernels: KernelTable) -> Floats:
    """Sizes of a table's kernels in the nets' order; [n, s].

    Raises:
        KeyError: A family that no such net prices.
    """
    return np.stack([kernels.size(name) for name in SIZES_SEEN[kernels.family]], axis=1)


def square_convolutions(shape: Floats, operations: Objects) -> KernelTable:
    """fp32 convolutions of square images and filters in one group, as the study measured them.

    Args:
        shape: Sizes in the order of ``SIZES_SEEN``, [n, 7].
    """
    batch, c_in, c_out, filters, inputs, strides, paddings = shape.T
    return build_kernel_table(
        KernelFamily.CONVOLUTION, len(shape), batch=batch, c_in=c_in, c_out=c_out, groups=1.0, has_bias=0.0,
        **square_sizes(inputs, filters, strides, paddings), operation=operations, memory_format="contiguous",
        dtype="fp32", framework="pytorch",
    )  # fmt: skip


def load_weights(folder: Path, part: str) -> tuple[dict[str, NDArray[np.float32]], Scaling]:
    """What a training put away.

    Raises:
        InputError: It is missing or broken.
    """
    arrays = read_part(folder, part).arrays
    weights = {k.removeprefix("net."): v for k, v in arrays.items() if k.startswith("net.")}
    return weights, Scaling(arrays["mean"], arrays["deviation"])


def load_direct_net(folder: Path, part: str) -> DirectNet:
    """A trained net.

    Raises:
        InputError: It is missing or broken.
    """
    return DirectNet(*load_weights(folder, part))


if __name__ == "__main__":
    print_part("nets.direct", "habitat", "nets")
