"""Nets of linear layers."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from perfcast.published.comparison import print_part


def build_mlp(num_inputs: int, num_outputs: int, width: int, num_layers: int) -> nn.Sequential:
    """``num_layers`` linear layers with ReLU between them; PyTorch's usual initial weights."""
    sizes = [num_inputs, *[width] * (num_layers - 1), num_outputs]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


if __name__ == "__main__":
    print_part("nets.mlp", "habitat", "nets")
