"""A transformer sharded with FSDP2; its memory on rank 0 of 64 without any of them::

    perfcast memory examples/fsdp_transformer.py:build --device h100-sxm --world-size 64 --batch-size 4

Meshes are on the CPU here, so that the same file can run on real processes without a GPU.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 1024, 16, 8, 32000, 512


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
            for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def build(batch_size: int, world_size: int):
    mesh = init_device_mesh("cpu", (world_size,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = Model()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    tokens = torch.randint(0, WORDS, (batch_size, LENGTH))
    return model, (tokens,), lambda logits: logits.float().logsumexp(-1).mean()
