"""Small parallel programs that a mesh is tried with where no model is named; nothing was fitted on them.

Each is a function as ``FILE.py:FUNCTION`` names it: it runs on virtual ranks, where it is forecast, and on
real processes, where it is measured.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from perfcast.published.comparison import print_part
from perfcast.workload.step import Program

_WIDTHS = (512, 2048, 2048, 512)
_WIDTH, _HEADS, _LAYERS, _WORDS, _LENGTH = 256, 4, 3, 4096, 128
_BATCH_SIZE = 8
_CHANNELS = (3, 32, 64)


class Block(nn.Module):
    """Attention and a feed-forward of four times the width."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.projections, self.output = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.up, self.down = nn.Linear(_WIDTH, 4 * _WIDTH), nn.Linear(4 * _WIDTH, _WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        parts = self.projections(self.first(x)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (_HEADS, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.second(x))))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Words, blocks, and a word for every place."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, _WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(_LAYERS))
        self.head = nn.Linear(_WIDTH, _WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, length, words] of tokens."""
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)  # type: ignore[no-any-return]


def _mean_of_squares(output: Tensor) -> Tensor:
    return output.square().mean()


def _of_first_word(logits: Tensor) -> Tensor:
    rows = logits.flatten(0, -2)
    return functional.cross_entropy(rows, torch.zeros(len(rows), dtype=torch.int64, device=rows.device))


def perceptron(batch_size: int) -> Program:
    """Linear layers with ReLU, the same on every rank."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(_WIDTHS):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    rows = 32 * batch_size
    return Program(nn.Sequential(*layers), (torch.randn(rows, _WIDTHS[0]),), {}, _mean_of_squares, rows)


def convolutions(batch_size: int) -> Program:
    """Convolutions without batch norm, the same on every rank."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(_CHANNELS):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    images = torch.randn(batch_size, _CHANNELS[0], 64, 64)
    return Program(nn.Sequential(*layers), (images,), {}, _mean_of_squares, batch_size)


def decoder(batch_size: int) -> Program:
    """A transformer, the same on every rank."""
    tokens = torch.zeros(batch_size, _LENGTH, dtype=torch.int64)
    return Program(Decoder(), (tokens,), {}, _of_first_word, batch_size, _LENGTH)


def tensor_parallel(batch_size: int, world_size: int) -> Program:
    """The same transformer, its feed-forwards cut over the innermost two ranks, or over all."""
    inner = 2 if world_size % 2 == 0 else world_size
    device = "cuda" if torch.get_default_device().type == "cuda" else "cpu"
    mesh = init_device_mesh(device, (world_size // inner, inner), mesh_dim_names=("outer", "inner"))
    program = decoder(batch_size)
    for block in program.module.blocks:  # type: ignore[union-attr]
        parallelize_module(block, mesh["inner"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return program


#: By the name that a command takes.
MODELS = ("perceptron", "convolutions", "decoder", "tensor_parallel")
USUAL_BATCH_SIZE = _BATCH_SIZE


def reference_of(name: str) -> str:
    """``FILE.py:FUNCTION`` of one of them."""
    return f"{__file__}:{name}"


if __name__ == "__main__":
    print_part("mesh_cost_model.models", "mesh_cost_model")
