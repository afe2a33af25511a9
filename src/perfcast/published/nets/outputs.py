"""Answers of a trained net of linear layers, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats
from perfcast.published.comparison import print_part


def mlp_outputs(weights: Mapping[str, NDArray[np.float32]], inputs: Floats) -> Floats:
    """Outputs [n, o] for inputs [n, f]: linear layers with ReLU between them, in fp32 as trained.

    ``weights`` are named as PyTorch's ``Sequential`` names them: '0.weight', '0.bias', '2.weight', …
    """
    starts = range(0, len(inputs), _ROWS_AT_ONCE) or range(1)
    return np.concatenate([_outputs(weights, inputs[i : i + _ROWS_AT_ONCE]) for i in starts])


_ROWS_AT_ONCE = 8192  # so that a hidden layer stays in the cache


def _outputs(weights: Mapping[str, NDArray[np.float32]], inputs: Floats) -> Floats:
    places = sorted({int(name.partition(".")[0]) for name in weights})
    hidden = inputs.astype(np.float32)
    for place in places:
        hidden = hidden @ weights[f"{place}.weight"].T + weights[f"{place}.bias"]
        if place != places[-1]:
            hidden = np.maximum(hidden, np.float32(0.0))
    return hidden.astype(np.float64)


if __name__ == "__main__":
    print_part("nets.outputs", "habitat", "nets")
