"""Parallel programs of every kind, and the collectives that real processes issue when they run them.

Run as a script, this file is several worlds of real ranks, which exchange data by Gloo: each rank trains
every program of its world three steps and writes down which collectives it issued in the third.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which fully_shard and the optimizers import when they first run
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from perfcast.workload.step import OptimizerChoice, Program, build_optimizer, run_training_step

SECONDS_AT_MOST = 300
OPTIMIZER = OptimizerChoice("sgd", "loop")


class Block(nn.Module):
    """A residual layer of two products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Words(nn.Module):
    """An embedding, blocks and a head."""

    def __init__(self, width: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tokens() -> Tensor:
    return torch.zeros(4, 8, dtype=torch.int64)


def world_size() -> int:
    return distributed.get_world_size()


def summing(module: nn.Module) -> nn.Module:
    """Gradients are summed, since Gloo has no mean."""
    for part in module.modules():
        if hasattr(part, "set_force_sum_reduction_for_comms"):
            part.set_force_sum_reduction_for_comms(True)
    return module


def shard(module: Words, mesh: Any) -> nn.Module:
    for block in module.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return summing(module)


# ---- sharded weights, tensor parallelism -------------------------------------------------------------


def build_sharded() -> Program:
    return Program(shard(Words(), init_device_mesh("cpu", (world_size(),))), args=(tokens(),))


def build_hybrid() -> Program:
    mesh = init_device_mesh("cpu", (2, world_size() // 2), mesh_dim_names=("replicate", "shard"))
    return Program(shard(Words(), mesh), args=(tokens(),))


def megatron(module: Words, mesh: Any) -> Words:
    """Columns then rows of every block."""
    for block in module.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return module


def with_sequences(module: Words, mesh: Any) -> Words:
    """The same with norms on a part of each sequence."""
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    for block in module.blocks:
        parallelize_module(block, mesh, plan)
    ends = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    return parallelize_module(module, mesh, ends)


def build_tensor_parallel() -> Program:
    return Program(megatron(Words(), init_device_mesh("cpu", (world_size(),))), args=(tokens(),))


def build_sequence_parallel() -> Program:
    return Program(with_sequences(Words(), init_device_mesh("cpu", (world_size(),))), args=(tokens(),))


def build_two_axes() -> Program:
    mesh = init_device_mesh("cpu", (world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    return Program(shard(with_sequences(Words(), mesh["tp"]), mesh["dp"]), args=(tokens(),))


# ---- replicas ----------------------------------------------------------------------------------------


def replicas(**options: Any) -> Program:
    """Four megabytes of weights, so that there are several buckets; and buffers."""
    layers = [nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 512)]
    module = nn.Sequential(nn.Linear(16, 512), *layers, nn.Linear(512, 512), nn.Linear(512, 8))
    return Program(DistributedDataParallel(module, **options), args=(torch.zeros(4, 16),))


class Gradual(nn.Module):
    """A module of which a part is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def build_replicas_of_a_part() -> Program:
    return Program(
        DistributedDataParallel(Gradual(), find_unused_parameters=True), args=(torch.zeros(4, 16),)
    )


# ---- pipelines ---------------------------------------------------------------------------------------


def pipeline(schedule: Callable[..., Any], stages_of_a_rank: int = 1, micro_batches: int = 4) -> Program:
    """One block a stage, of which the first also looks words up."""
    rank, size = distributed.get_rank(), world_size()
    count = size * stages_of_a_rank
    modules, stages = [], []
    for index in range(rank, count, size):
        module = nn.Sequential(*([nn.Embedding(50, 16)] if index == 0 else []), Block(16))
        modules.append(module)
        stages.append(PipelineStage(module, index, count, torch.device("cpu")))
    order = schedule(
        stages if stages_of_a_rank > 1 else stages[0], micro_batches, loss_fn=lambda output, _: output.sum()
    )

    def step() -> None:
        inputs = (torch.zeros(2 * micro_batches, 8, dtype=torch.int64),) if rank == 0 else ()
        order.step(*inputs, target=torch.zeros(2 * micro_batches, 8) if rank == size - 1 else None)

    return Program(nn.ModuleList(modules), run=step)


class Own(nn.Module):
    """A program with collectives of its own, one of which runs beside a product."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        rank, size = distributed.get_rank(), world_size()
        total = x.clone()
        work = distributed.all_reduce(total, async_op=True)
        y = x @ self.weight
        work.wait()
        received = torch.empty_like(x)
        both = [
            distributed.P2POp(distributed.isend, x, (rank + 1) % size),
            distributed.P2POp(distributed.irecv, received, (rank - 1) % size),
        ]
        for one in distributed.batch_isend_irecv(both):
            one.wait()
        return y + total + received


def build_own() -> Program:
    return Program(Own(), args=(torch.zeros(8, 8),))


PROGRAMS: dict[str, Callable[[], Program]] = {
    "sharded": build_sharded,
    "hybrid": build_hybrid,
    "tensor parallel": build_tensor_parallel,
    "sequence parallel": build_sequence_parallel,
    "two axes": build_two_axes,
    "replicas": replicas,
    "replicas, views": lambda: replicas(gradient_as_bucket_view=True, bucket_cap_mb=2),
    "replicas of a part": build_replicas_of_a_part,
    "GPipe": lambda: pipeline(ScheduleGPipe),
    "1F1B": lambda: pipeline(Schedule1F1B),
    "interleaved 1F1B": lambda: pipeline(ScheduleInterleaved1F1B, 2),
    "own collectives": build_own,
}
#: Of those that need no more than two ranks to show what they do.
OF_TWO_RANKS = ("GPipe", "replicas, views", "replicas of a part", "own collectives")
OF_BOTH = ("sharded", "tensor parallel", "sequence parallel", "replicas", "1F1B")
CASES = [(name, 2) for name in (*OF_TWO_RANKS, *OF_BOTH)] + [
    (name, 4) for name in PROGRAMS if name not in OF_TWO_RANKS
]
WORLD_SIZES = (2, 4)


# ---- real ranks --------------------------------------------------------------------------------------

#: Operator → its name here, which argument is the full buffer (None: the result), the group, the peer.
OPERATORS: dict[str, tuple[str, int | None, int, int | None]] = {
    "c10d::_allgather_base_": ("all_gather", 0, 2, None),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1, 2, None),
    "c10d::allreduce_": ("all_reduce", 0, 1, None),
    "c10d::broadcast_": ("broadcast", 0, 1, None),
    "c10d::send": ("send", 0, 1, 2),
    "c10d::recv_": ("receive", 0, 1, 2),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", None, 2, None),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", 0, 3, None),
    "_c10d_functional::all_reduce": ("all_reduce", 0, 2, None),
}


NO_COLLECTIVES = ("_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd")


class CollectiveLog(TorchDispatchMode):
    """Name, bytes of the full buffer, ranks and peer of each collective, read from operators' arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional") and func.name() not in NO_COLLECTIVES:
            word, of_tensor, of_group, of_peer = OPERATORS[func.name()]
            tensor, group = (out if of_tensor is None else args[of_tensor]), args[of_group]
            tensor = tensor[0] if isinstance(tensor, list) else tensor
            if isinstance(group, str):
                group = torch._C._distributed_c10d._resolve_process_group(group)
            elif not isinstance(group, distributed.ProcessGroup):
                group = distributed.ProcessGroup.unbox(group)
            ranks = distributed.get_process_group_ranks(group)
            peer = None if of_peer is None else ranks[args[of_peer]]
            self.seen.append([word, tensor.numel() * tensor.itemsize, ranks, peer])
        return out


def observe(name: str) -> list[list[Any]]:
    """Collectives of the third real step; the first ones make what later ones reuse."""
    program = PROGRAMS[name]()
    program.module.train()
    optimizer = build_optimizer(OPTIMIZER, program.module)
    for _ in range(2):
        run_training_step(program, optimizer)
    with CollectiveLog() as log:
        run_training_step(program, optimizer)
    return log.seen


def run_on_real_ranks(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """By world size and rank: what each program did."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS_AT_MOST, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return {
        size: [json.loads((folder / f"{size}-{rank}.json").read_text()) for rank in range(size)]
        for size in WORLD_SIZES
    }


def be_rank(rank: int, size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / f'rendezvous-{size}'}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=SECONDS_AT_MOST / 2),
    )
    seen = {name: observe(name) for name, of_size in CASES if of_size == size}
    distributed.destroy_process_group()
    (folder / f"{size}-{rank}.json").write_text(json.dumps(seen))


def main(folder: Path) -> int:
    """Ranks are forked from here, where PyTorch is imported but has not yet run a thing."""
    context = multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=be_rank, args=(rank, size, folder))
        for size in WORLD_SIZES
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return max(abs(process.exitcode or 0) for process in ranks)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
