"""Small training programs that are recorded and replayed; each is an ordinary script with an optimizer.

``python benchmarks/replay_models.py NAME [--steps N]``; ``benchmarks/replay.py`` runs them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Step = Callable[[], Any]


def transformer() -> Step:
    """Two encoder layers of width 128 over 8 sequences of 64 tokens, AdamW."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(1000, 128),
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        nn.Linear(128, 1000),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens, targets = torch.randint(0, 1000, (8, 64)), torch.randint(0, 1000, (8 * 64,))
    return training(optimizer, lambda: functional.cross_entropy(model(tokens).reshape(-1, 1000), targets))


class SmallRecommender(nn.Module):
    """Bags of three tables, their products with the dense features, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, 16, mode="sum") for rows in (1000, 5000, 20000))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(22, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: torch.Tensor, indices: Any, offsets: torch.Tensor) -> torch.Tensor:
        """Shape [batch, 1]; ``indices`` one tensor a table."""
        hidden = self.bottom(dense)
        looked_up = [bag(i, offsets) for bag, i in zip(self.bags, indices, strict=True)]
        stacked = torch.stack([hidden, *looked_up], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([hidden, products[:, rows, columns]], dim=1))


def dlrm() -> Step:
    """Three tables of up to 20,000 rows, 4 lookups a bag, 128 samples, SGD."""
    model = SmallRecommender()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dense, targets = torch.rand(128, 13), torch.randint(0, 2, (128, 1)).float()
    indices = [torch.randint(0, bag.num_embeddings, (128 * 4,)) for bag in model.bags]
    offsets = torch.arange(0, 128 * 4, 4)
    loss = functional.binary_cross_entropy_with_logits
    return training(optimizer, lambda: loss(model(dense, indices, offsets), targets))


class Block(nn.Module):
    """Two convolutions beside a shortcut (He et al., 2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm_first = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_second = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape [batch, after, height / stride, width / stride]."""
        hidden = functional.relu(self.norm_first(self.first(x)))
        return functional.relu(self.norm_second(self.second(hidden)) + self.shortcut(x))


def resnet() -> Step:
    """An 18-layer residual network on 4 images of 64 × 64, SGD with momentum."""
    widths = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),
              (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))  # fmt: skip
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *(Block(*width) for width in widths),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, targets = torch.rand(4, 3, 64, 64), torch.randint(0, 100, (4,))
    return training(optimizer, lambda: functional.cross_entropy(model(images), targets))


class Tagger(nn.Module):
    """An embedding, two recurrent layers, a classifier of every token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 64)
        self.recurrent = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Shape [batch, length, 20]."""
        scores: torch.Tensor = self.head(self.recurrent(self.embedding(tokens))[0])
        return scores


def lstm() -> Step:
    """Two recurrent layers of width 128 over 16 sequences of 32 tokens, Adam."""
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens, targets = torch.randint(0, 2000, (16, 32)), torch.randint(0, 20, (16 * 32,))
    return training(optimizer, lambda: functional.cross_entropy(model(tokens).reshape(-1, 20), targets))


def training(optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> Step:
    """One step of training as a function."""

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step


MODELS: dict[str, Callable[[], Step]] = {
    "transformer": transformer, "dlrm": dlrm, "resnet": resnet, "lstm": lstm
}  # fmt: skip


def main() -> None:
    """Train one of the models for some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    step = MODELS[arguments.name]()
    for _ in range(arguments.steps):
        step()


if __name__ == "__main__":
    main()
