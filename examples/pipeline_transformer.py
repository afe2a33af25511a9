"""A transformer in pipeline stages, each replicated with FSDP2, by a 1F1B schedule of PyTorch's own::

    perfcast predict examples/pipeline_transformer.py:build --world-size 64 --cluster dgx-h100:64

The function returns a module and the step: a schedule orders forwards and backwards itself. The batch is that
of one replica, cut into micro-batches of one sequence.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 2048, 16, 24, 32000, 2048
STAGES, MICRO_BATCHES = 4, 8


class Stage(nn.Module):
    """A row of layers; the first stage has the embedding before it, the last the head behind it."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH) if index == 0 else None
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
            for _ in range(LAYERS // STAGES)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False) if index == STAGES - 1 else None

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(x)


def cross_entropy(logits: Tensor, words: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten())


def build(world_size: int):
    mesh = init_device_mesh("cpu", (STAGES, world_size // STAGES), mesh_dim_names=("pp", "dp"))
    index = mesh["pp"].get_local_rank()
    module = Stage(index)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in module.layers:
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy, reshard_after_forward=False)
    fully_shard(module, mesh=mesh["dp"], mp_policy=policy, reshard_after_forward=False)
    stage = PipelineStage(module, index, STAGES, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=cross_entropy)
    words = torch.randint(0, WORDS, (MICRO_BATCHES, LENGTH))

    def step() -> None:
        inputs = (words,) if index == 0 else ()
        schedule.step(*inputs, target=words if index == STAGES - 1 else None)

    return module, step
