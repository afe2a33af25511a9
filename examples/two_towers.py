"""A model of one's own: ``perfcast predict examples/two_towers.py:build --device l40s --batch-size 4096``."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TwoTowers(nn.Module):
    """Scores every query against every document of the batch."""

    def __init__(self, vocab_size: int = 50_000, width: int = 256) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocab_size, width, mode="mean")
        self.query = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.document = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Scores [batch, batch] of queries [batch, words] and documents [batch, words]."""
        return self.query(self.words(queries)) @ self.document(self.words(documents)).T


def contrastive_loss(scores: Tensor) -> Tensor:
    """Each query's own document is the right one."""
    return nn.functional.cross_entropy(scores, torch.arange(scores.shape[0]))


def build(batch_size: int = 1024) -> tuple[nn.Module, tuple[Tensor, Tensor], object]:
    """Module, inputs, loss: what perfcast asks of a function."""
    queries = torch.zeros(batch_size, 16, dtype=torch.int64)
    documents = torch.zeros(batch_size, 128, dtype=torch.int64)
    return TwoTowers(), (queries, documents), contrastive_loss
