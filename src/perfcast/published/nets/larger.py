"""Larger nets that answer the latency of a batched product directly: the NeuSight study's comparison.

MLPs of 8 and 16 linear layers, and transformer encoders of 3 and 6 layers in which each input (four sizes,
four device figures) is a token. The study reports for them 28.0, 22.3, 22.3 and 21.0 % error on devices and
sizes like those trained on, and 70.9, 81.4, 126.1 and 86.4 % on others: more parameters fit better and carry
over no better. Inputs, output and loss as in ``direct_nets``. The study gives no width of its transformers;
128 with 4 heads is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.published.comparison import print_part
from perfcast.published.habitat.predictor import net_names
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.kernels.graph import StudyCost, build_table_cost
from perfcast.published.nets.direct import (
    WIDTH,
    Scaling,
    direct_inputs,
    load_weights,
    sizes_seen,
)
from perfcast.published.nets.store import read_record
from perfcast.units import MILLI

if TYPE_CHECKING:
    from torch import nn


_TRANSFORMER_WIDTH, _NUM_HEADS = 128, 4
_NUM_INPUTS = 8
#: The one archive of such a predictor.
PART = "bmm"

#: Name → (kind, layers).
LARGER: Mapping[str, tuple[str, int]] = {
    "mlp8": ("mlp", 8),
    "mlp16": ("mlp", 16),
    "transformer3": ("transformer", 3),
    "transformer6": ("transformer", 6),
}


def build_larger(name: str, num_inputs: int) -> nn.Module:
    """The untrained net of that name."""
    from perfcast.published.nets.mlp import build_mlp
    from perfcast.published.nets.tokens import TokenTransformer

    kind, num_layers = LARGER[name]
    if kind == "mlp":
        return build_mlp(num_inputs, 1, WIDTH, num_layers)
    return TokenTransformer(num_inputs, _TRANSFORMER_WIDTH, _NUM_HEADS, num_layers)


@dataclass(frozen=True, eq=False)
class LargerPredictor:
    """A trained net."""

    name: str
    weights: Mapping[str, NDArray[np.float32]]
    scaling: Scaling

    @cached_property
    def net(self) -> nn.Module:
        """The net with its weights."""
        import torch

        net = build_larger(self.name, _NUM_INPUTS)
        net.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in self.weights.items()})
        return net.eval()

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n], at least 0; NaN for everything but batched fp32 products."""
        import torch

        seconds = np.full(len(kernels), np.nan)
        if kernels.family is not KernelFamily.PRODUCT:
            return seconds
        known = np.flatnonzero((kernels.word("dtype") == "fp32") & (net_names(kernels) == "bmm"))
        figures = collect_study_figures(devices, device_index[known])
        inputs = self.scaling.apply(direct_inputs(sizes_seen(kernels.take(known)), figures))
        with torch.inference_mode():
            outputs = self.net(torch.from_numpy(inputs.astype(np.float32))).numpy()
        seconds[known] = np.maximum(outputs[:, 0].astype(np.float64) * MILLI, 0.0)
        return seconds


def load_larger(name: str, folder: Path) -> LargerPredictor:
    """The predictor that ``perfcast train NAME`` left in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    read_record(folder, name)
    return LargerPredictor(name, *load_weights(folder, PART))


def load_larger_cost(name: str, folder: Path) -> StudyCost:
    """The cost model on the predictor in ``folder``; everything but batched products is the roofline's.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    return build_table_cost(load_larger(name, folder), read_record(folder, name))


if __name__ == "__main__":
    print_part("nets.larger", "habitat", "nets")
