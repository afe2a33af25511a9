"""Regressors of kernels: an MLP with ReLU from logarithms of sizes to the logarithm of the time.

One net for each family and device, as published: products (batch, m, k, n), convolutions (batch, padded
image, channels in and out, filter, stride), layer norm (rows, their length). The study searched 3 to 7
layers of 64 to 512; here 5 layers of 256. Its batch norm, transpose and lower-triangle nets lack
measurements that anybody published; so do its convolutions' dilation and groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.published.comparison import print_part
from perfcast.published.nets.direct import Scaling, load_weights
from perfcast.published.nets.outputs import mlp_outputs
from perfcast.units import MILLI

NUM_LAYERS, WIDTH = 5, 256
#: Families by the operations that they price, as the NeuSight study calls them.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "product": ("linear", "bmm"),
    "convolution": ("conv",),
    "layer_norm": ("ln",),
}


@dataclass(frozen=True, eq=False)
class Regressor:
    """A trained net of one family on one device."""

    weights: Mapping[str, NDArray[np.float32]]
    scaling: Scaling

    def predict(self, sizes: Floats) -> Floats:
        """Seconds of kernels, shape [n], from their features [n, f] (``features_of_shapes``)."""
        outputs = mlp_outputs(self.weights, self.scaling.apply(sizes))
        seconds: Floats = np.exp(outputs[:, 0].astype(np.float64)) * MILLI
        return seconds


def part_name(family: str, device: str) -> str:
    """Name of a net's files."""
    return f"{family}.{device}"


def features_of_shapes(family: str, shape: Floats) -> Floats:
    """Logarithms that the net of a family sees, [n, f].

    Args:
        shape: Products (batch, m, k, n), layer norm (rows, length), convolutions (batch, channels in and
            out, filter, image, stride, padding).
    """
    sizes = shape
    if family == "convolution":
        batch, c_in, c_out, filters, image, stride, padding = shape.T
        sizes = np.stack([batch, image + 2 * padding, c_in, c_out, filters, stride], axis=1)
    logarithms: Floats = np.log(sizes)
    return logarithms


def features_of_kernels(family: str, kernels: KernelTable) -> Floats:
    """The same of a table of kernels."""
    return features_of_shapes(family, np.stack([kernels.size(name) for name in _SIZES[family]], axis=1))


_SIZES: Mapping[str, tuple[str, ...]] = {
    "product": ("batch", "m", "k", "n"),
    "convolution": (
        "batch", "c_in", "c_out", "filter_width", "input_width", "stride_width", "padding_width",
    ),
    "layer_norm": ("num_rows", "row_length"),
}  # fmt: skip

KERNEL_FAMILIES: Mapping[KernelFamily, str] = {
    KernelFamily.PRODUCT: "product",
    KernelFamily.CONVOLUTION: "convolution",
    KernelFamily.ROWS: "layer_norm",
}


def load_regressor(folder: Path, part: str) -> Regressor:
    """A trained net.

    Raises:
        InputError: It is missing or broken.
    """
    return Regressor(*load_weights(folder, part))


if __name__ == "__main__":
    print_part("multi_gpu_2024.regressors", "multi_gpu_2024")
