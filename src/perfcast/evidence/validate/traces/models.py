"""Small models that ``validate traces`` records and really runs: eight that are reported, five to develop on.

One training step each, on one thread; of the models with two ranks, one trains data-parallel and one splits
its embedding tables and exchanges what it looked up. Nothing was chosen by looking at errors on the reported
ones. Their sizes are such that a step takes some ten milliseconds at the smallest batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

#: Different inputs that a program goes round.
_NUM_INPUTS = 4

Step = Callable[[], None]


@dataclass(frozen=True)
class TraceModel:
    """A program by name.

    Attributes:
        batch_size: Of one rank, as recorded first.
        build: From a batch size to one training step.
        is_reported: Among the eight; the others are for developing.
    """

    name: str
    kind: str
    num_ranks: int
    batch_size: int
    build: Callable[[int], Step]
    is_reported: bool = True


# ---- steps ---------------------------------------------------------------------------------------------


def _step(module: nn.Module, optimizer: torch.optim.Optimizer, make: Callable[[], tuple[Any, Tensor]],
          loss: Callable[[Tensor, Tensor], Tensor]) -> Step:  # fmt: skip
    """A training step over inputs and targets made beforehand."""
    pairs = cycle([make() for _ in range(_NUM_INPUTS)])

    def step() -> None:
        inputs, targets = next(pairs)
        loss(module(*inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


def _joined(module: nn.Module, num_ranks: int) -> nn.Module:
    return nn.parallel.DistributedDataParallel(module) if num_ranks > 1 else module


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def _binary(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits.squeeze(-1), targets)


# ---- recommendation ------------------------------------------------------------------------------------


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _interact(dense: Tensor, looked_up: Sequence[Tensor]) -> Tensor:
    """Products of all pairs of features, behind the dense ones: [batch, dim + pairs]."""
    features = torch.stack((dense, *looked_up), dim=1)
    count = features.shape[1]
    low, high = torch.tril_indices(count, count, offset=-1)
    products = torch.bmm(features, features.transpose(1, 2))
    return torch.cat((dense, products[:, low, high]), dim=1)


class Recommender(nn.Module):
    """DLRM: a dense and a sparse half, their interaction, and a top; see Naumov et al., 2019."""

    def __init__(self, bottom: Sequence[int], top: Sequence[int], rows: Sequence[int], pooling: int) -> None:
        super().__init__()
        self.dim, self.pooling, self.rows = bottom[-1], pooling, tuple(rows)
        self.bottom = perceptron(bottom)
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(count, self.dim, mode="sum", sparse=True) for count in rows
        )
        pairs = len(rows) * (len(rows) + 1) // 2
        self.top = perceptron([self.dim + pairs, *top])

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        """Logits [batch, 1] of dense [batch, features] and indices [tables, batch, pooling]."""
        looked_up = [table(own) for table, own in zip(self.tables, indices, strict=True)]
        return self.top(_interact(self.bottom(dense), looked_up))  # type: ignore[no-any-return]


def _recommender(bottom: Sequence[int], top: Sequence[int], rows: Sequence[int], pooling: int,
                 batch: int) -> Step:  # fmt: skip
    module = Recommender(bottom, top, rows, pooling)

    def make() -> tuple[Any, Tensor]:
        return (torch.randn(batch, bottom[0]), _indices(rows, batch, pooling)), torch.rand(batch).round()

    return _step(module, torch.optim.SGD(module.parameters(), 0.01), make, _binary)


def _indices(rows: Sequence[int], batch: int, pooling: int) -> Tensor:
    """Rows of tables, the lower ones more often: [tables, batch, pooling]."""
    draws = torch.rand(len(rows), batch, pooling) ** 3
    return (draws * torch.tensor(rows).view(-1, 1, 1)).long()


class _AllToAll(torch.autograd.Function):
    """Equal parts of the first dim to every rank, and the gradients back."""

    @staticmethod
    def forward(ctx: Any, sent: Tensor) -> Tensor:
        """The parts of all ranks for this one."""
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent.contiguous())
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Likewise."""
        received = torch.empty_like(gradients[0])
        dist.all_to_all_single(received, gradients[0].contiguous())
        return received


class SplitRecommender(nn.Module):
    """DLRM whose tables are on either rank and whose dense layers are on both."""

    def __init__(
        self, bottom: Sequence[int], top: Sequence[int], rows: Sequence[int], num_ranks: int
    ) -> None:
        super().__init__()
        self.num_ranks, self.dim = num_ranks, bottom[-1]
        self.bottom = nn.parallel.DistributedDataParallel(perceptron(bottom))
        own = len(rows) // num_ranks
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(count, self.dim, mode="sum", sparse=True) for count in rows[:own]
        )
        pairs = len(rows) * (len(rows) + 1) // 2
        self.top = nn.parallel.DistributedDataParallel(perceptron([self.dim + pairs, *top]))

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        """Logits [batch, 1]; indices [own tables, batch of all ranks, pooling]."""
        pooled = [table(own) for table, own in zip(self.tables, indices, strict=True)]
        sent = torch.stack(pooled, dim=1)
        received = _AllToAll.apply(sent)  # type: ignore[no-untyped-call]
        parts = received.view(self.num_ranks, dense.shape[0], len(pooled), self.dim)
        looked_up = parts.transpose(0, 1).flatten(1, 2).unbind(1)
        return self.top(_interact(self.bottom(dense), looked_up))  # type: ignore[no-any-return]


def _split_recommender(bottom: Sequence[int], top: Sequence[int], rows: Sequence[int], pooling: int,
                       batch: int) -> Step:  # fmt: skip
    num_ranks = dist.get_world_size()
    module = SplitRecommender(bottom, top, rows, num_ranks)
    own = rows[: len(rows) // num_ranks]

    def make() -> tuple[Any, Tensor]:
        indices = _indices(own, batch * num_ranks, pooling)
        return (torch.randn(batch, bottom[0]), indices), torch.rand(batch).round()

    return _step(module, torch.optim.SGD(module.parameters(), 0.01), make, _binary)


# ---- transformers --------------------------------------------------------------------------------------


class LanguageModel(nn.Module):
    """Token and position embeddings, pre-norm blocks, logits; causal or not."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int, is_causal: bool) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads, is_causal) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, length, words]."""
        hidden = self.words(tokens) + self.positions
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """[batch, length, width] likewise."""
        batch, length, width = hidden.shape
        parts = self.inward(self.first(hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        hidden = hidden + self.outward(mixed.transpose(1, 2).flatten(2))
        return hidden + self.down(functional.gelu(self.up(self.second(hidden))))  # type: ignore[no-any-return]


def _language(words: int, length: int, width: int, heads: int, layers: int, is_causal: bool, num_ranks: int,
              batch: int) -> Step:  # fmt: skip
    module = _joined(LanguageModel(words, length, width, heads, layers, is_causal), num_ranks)

    def make() -> tuple[Any, Tensor]:
        return (torch.randint(words, (batch, length)),), torch.randint(words, (batch, length))

    return _step(module, torch.optim.AdamW(module.parameters()), make, _cross_entropy)


class VisionTransformer(nn.Module):
    """Patches, blocks, mean, classes."""

    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.positions = nn.Parameter(torch.zeros((size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, is_causal=False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [batch, classes]."""
        hidden = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(hidden)).mean(dim=1))  # type: ignore[no-any-return]


def _images(module: nn.Module, optimizer: torch.optim.Optimizer, size: int, classes: int, batch: int) -> Step:
    def make() -> tuple[Any, Tensor]:
        return (torch.randn(batch, 3, size, size),), torch.randint(classes, (batch,))

    return _step(module, optimizer, make, functional.cross_entropy)


def _vision(batch: int) -> Step:
    module = VisionTransformer(64, 8, 192, 3, 4, 100)
    return _images(module, torch.optim.AdamW(module.parameters()), 64, 100, batch)


# ---- convolutions, recurrences, perceptrons ------------------------------------------------------------


class ResidualBlock(nn.Module):
    """Two convolutions with batch norm beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, h, w] to [batch, outputs, h / stride, w / stride]."""
        hidden = functional.relu(self.norms[0](self.first(x)))
        hidden = self.norms[1](self.second(hidden))
        return functional.relu(hidden + self.shortcut(x))


def _residual(batch: int) -> Step:
    module = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        ResidualBlock(32, 32, 1), ResidualBlock(32, 64, 2), ResidualBlock(64, 128, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100),
    )  # fmt: skip
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
    return _images(module, optimizer, 32, 100, batch)


def _plain_convolutions(batch: int) -> Step:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((3, 24, 48, 96)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(96 * 36, 256), nn.ReLU(), nn.Linear(256, 50))
    return _images(module, torch.optim.Adam(module.parameters()), 48, 50, batch)


class Recurrent(nn.Module):
    """Tokens, a recurrence, a label for each."""

    def __init__(
        self, kind: type[nn.LSTM | nn.GRU], words: int, width: int, layers: int, labels: int
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.cells = kind(width, width, num_layers=layers, batch_first=True)
        self.head = nn.Linear(width, labels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, length, labels]."""
        return self.head(self.cells(self.words(tokens))[0])  # type: ignore[no-any-return]


def _recurrent(kind: type[nn.LSTM | nn.GRU], words: int, length: int, width: int, layers: int,
               batch: int) -> Step:  # fmt: skip
    module = Recurrent(kind, words, width, layers, 64)

    def make() -> tuple[Any, Tensor]:
        return (torch.randint(words, (batch, length)),), torch.randint(64, (batch, length))

    return _step(module, torch.optim.Adam(module.parameters()), make, _cross_entropy)


def _perceptron(widths: Sequence[int], num_ranks: int, batch: int) -> Step:
    module = _joined(perceptron(widths), num_ranks)

    def make() -> tuple[Any, Tensor]:
        return (torch.randn(batch, widths[0]),), torch.randn(batch, widths[-1])

    return _step(module, torch.optim.Adam(module.parameters()), make, functional.mse_loss)


# ---- which ---------------------------------------------------------------------------------------------

_REPORTED: tuple[tuple[str, str, int, int, Callable[[int], Step]], ...] = (
    ("dlrm", "recommender", 1, 512, lambda batch: _recommender(
        (13, 512, 256, 64), (512, 256, 1), (100_000, 40_000, 20_000, 10_000, 5_000, 1_000) * 2, 8, batch)),
    ("dlrm-2", "recommender, tables on two ranks", 2, 512, lambda batch: _split_recommender(
        (13, 512, 256, 64), (512, 256, 1), (50_000, 20_000, 5_000, 1_000) * 2, 8, batch)),
    ("encoder-2", "transformer, data parallel on two ranks", 2, 8, lambda batch: _language(
        2000, 64, 256, 4, 2, False, 2, batch)),
    ("gpt", "causal transformer", 1, 4, lambda batch: _language(4000, 96, 256, 4, 3, True, 1, batch)),
    ("vit", "vision transformer", 1, 8, _vision),
    ("resnet", "convolutions with shortcuts", 1, 8, _residual),
    ("lstm", "recurrence", 1, 16, lambda batch: _recurrent(nn.LSTM, 5000, 32, 256, 2, batch)),
    ("autoencoder", "perceptron", 1, 128, lambda batch: _perceptron(
        (784, 1024, 512, 64, 512, 1024, 784), 1, batch)),
)  # fmt: skip
_DEVELOPED_ON: tuple[tuple[str, str, int, int, Callable[[int], Step]], ...] = (
    ("small-dlrm", "recommender", 1, 1024, lambda batch: _recommender(
        (8, 256, 32), (256, 128, 1), (30_000,) * 6, 4, batch)),
    ("perceptron-2", "perceptron, data parallel on two ranks", 2, 96, lambda batch: _perceptron(
        (400, 1200, 1200, 100), 2, batch)),
    ("wide-encoder", "transformer", 1, 6, lambda batch: _language(1500, 80, 384, 6, 2, False, 1, batch)),
    ("convolutions", "convolutions", 1, 12, _plain_convolutions),
    ("gru", "recurrence", 1, 24, lambda batch: _recurrent(nn.GRU, 2000, 24, 192, 1, batch)),
)  # fmt: skip

TRACE_MODELS: tuple[TraceModel, ...] = (
    *(TraceModel(*row) for row in _REPORTED),
    *(TraceModel(*row, is_reported=False) for row in _DEVELOPED_ON),
)
