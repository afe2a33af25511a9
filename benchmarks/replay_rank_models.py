"""Small training programs of two gloo ranks that are recorded and replayed.

``python benchmarks/replay_rank_models.py NAME [--steps N]`` starts both ranks; ``benchmarks/replay.py`` runs
them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from replay_models import Step, training
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

NUM_RANKS = 2


class Positions(nn.Module):
    """Token and position embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(1000, 128)
        self.places = nn.Parameter(torch.zeros(64, 128))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Shape [batch, length, 128]."""
        embedded: torch.Tensor = self.tokens(tokens) + self.places
        return embedded


def ddp_transformer(rank: int) -> Step:
    """Two encoder layers of width 128 over 8 sequences of 64 tokens, data parallel, AdamW."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = DistributedDataParallel(nn.Sequential(Positions(), encoder, nn.Linear(128, 1000)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + rank)
    tokens, targets = torch.randint(0, 1000, (8, 64)), torch.randint(0, 1000, (8 * 64,))
    return training(optimizer, lambda: functional.cross_entropy(model(tokens).flatten(0, 1), targets))


class AllToAll(torch.autograd.Function):
    """Rows change places with the other ranks, gradients back."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
        """Equal parts to all ranks."""
        received = torch.empty_like(rows)
        dist.all_to_all_single(received, rows.contiguous())
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """The same way back."""
        received = torch.empty_like(gradients[0])
        dist.all_to_all_single(received, gradients[0].contiguous())
        return received


class Dense(nn.Module):
    """Bottom network, products of all pairs of vectors, top network."""

    rows: torch.Tensor
    columns: torch.Tensor

    def __init__(self, width: int, num_tables: int) -> None:
        super().__init__()
        num_vectors = num_tables + 1
        num_pairs = num_vectors * (num_vectors - 1) // 2
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + num_pairs, 64), nn.ReLU(), nn.Linear(64, 1))
        rows, columns = torch.tril_indices(num_vectors, num_vectors, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, dense: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        """Shape [batch]; ``pooled`` [batch, tables, width]."""
        hidden = self.bottom(dense)
        vectors = torch.cat([hidden.unsqueeze(1), pooled], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.rows, self.columns]
        scores: torch.Tensor = self.top(torch.cat([hidden, products], 1)).squeeze(1)
        return scores


def ddp_dlrm(rank: int) -> Step:
    """Four tables of 20,000 rows split over ranks, all-to-all of bags of 10, data parallel networks, SGD."""
    batch, width, num_tables, rows, pooling = 512, 32, 4, 20_000, 10
    own = num_tables // NUM_RANKS
    tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(own))
    dense = DistributedDataParallel(Dense(width, num_tables))
    optimizer = torch.optim.SGD([*tables.parameters(), *dense.parameters()], 0.1)
    torch.manual_seed(1 + rank)
    features, targets = torch.randn(batch, 13), (torch.rand(batch) < 0.3).float()
    every = batch * NUM_RANKS
    indices = [torch.randint(0, rows, (every * pooling,)) for _ in tables]
    offsets = torch.arange(0, every * pooling, pooling)

    def loss() -> torch.Tensor:
        pooled = torch.stack([table(i, offsets) for table, i in zip(tables, indices, strict=True)], 1)
        mine = AllToAll.apply(pooled).view(NUM_RANKS, batch, own, width)
        vectors = mine.permute(1, 0, 2, 3).reshape(batch, num_tables, width)
        return functional.binary_cross_entropy_with_logits(dense(features, vectors), targets)

    return training(optimizer, loss)


RANK_MODELS: dict[str, Callable[[int], Step]] = {"ddp-transformer": ddp_transformer, "ddp-dlrm": ddp_dlrm}


def joined(name: str, rank: int, init_method: str) -> Step:
    """A rank's step, once the other rank is there."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=NUM_RANKS)
    torch.manual_seed(0)
    return RANK_MODELS[name](rank)


def main() -> None:
    """Train one of the models for some steps: starts the ranks, or is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RANK_MODELS)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--init-method", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, *sys.argv, "--init-method", (Path(folder) / "meeting").as_uri()]
            environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}
            ranks = [
                subprocess.Popen([*command, "--rank", str(r)], env=environment) for r in range(NUM_RANKS)
            ]
            sys.exit(max(rank.wait() for rank in ranks))
    step = joined(arguments.name, arguments.rank, arguments.init_method)
    for _ in range(arguments.steps):
        step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
