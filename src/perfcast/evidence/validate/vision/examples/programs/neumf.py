"""Neural collaborative filtering (He et al.: arXiv 1708.05031), as PyTorch/Recommendation/NCF builds it.

MovieLens 20M: 138,493 users, 26,744 films; 64 factors, layers of 256, 256, 128, 64.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.step import Program

_USERS, _ITEMS, _FACTORS, _LAYERS = 138_493, 26_744, 64, (256, 256, 128, 64)


def build_neumf(shape: ProgramShape) -> Program:
    """Pairs of user and item; training with binary cross-entropy."""
    pairs = tuple(torch.zeros(shape.batch_size, dtype=torch.int64) for _ in range(2))
    return Program(NeuMF(shape.is_training), pairs, loss_function=_loss, batch_size=shape.batch_size)


def _loss(logits: Tensor) -> Tensor:
    labels = torch.zeros(logits.shape[0], 1)
    losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return losses.float().view(-1).mean(0)


class NeuMF(nn.Module):
    """Matrix factorisation beside a perceptron."""

    def __init__(self, is_training: bool) -> None:
        super().__init__()
        half = _LAYERS[0] // 2
        self.factors = nn.ModuleList((nn.Embedding(_USERS, _FACTORS), nn.Embedding(_ITEMS, _FACTORS)))
        self.features = nn.ModuleList((nn.Embedding(_USERS, half), nn.Embedding(_ITEMS, half)))
        self.mlp = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(_LAYERS))
        self.final = nn.Linear(_LAYERS[-1] + _FACTORS, 1)
        self.is_training = is_training

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits [batch, 1] in training, else chances."""
        product = self.factors[0](users) * self.factors[1](items)
        x = torch.cat((self.features[0](users), self.features[1](items)), dim=1)
        for layer in self.mlp:
            x = functional.dropout(functional.relu(layer(x)), p=0.5, training=self.training)
        x = self.final(torch.cat((product, x), dim=1))
        return x if self.is_training else torch.sigmoid(x)
