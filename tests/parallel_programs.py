"""Small parallelised programs, and the same programs on real processes that exchange data.

Run as a script, this file is one rank of a real world: it trains each program two steps, and writes what
PyTorch's memory tracker saw of the second and which collectives it issued.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which fully_shard and the optimizers import when they first run
from torch import Tensor, nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from perfcast.core.graph import Phase
from perfcast.torch_internals.eager import active_fake_mode
from perfcast.workload.step import OptimizerChoice, Program, build_optimizer, run_training_step

SECONDS_AT_MOST = 300


# ---- models ------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A transformer layer with its own arithmetic, so that nothing depends on a kernel's choice."""

    def __init__(self, width: int, again: bool = False) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.again = again

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.body, x, use_reentrant=False) if self.again else self.body(x)

    def body(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)
        return x + self.mlp(x)


class Transformer(nn.Module):
    def __init__(self, width: int = 48, depth: int = 2, again: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width, again) for _ in range(depth))
        self.head = nn.Linear(width, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers)


# ---- parallelised ------------------------------------------------------------------------------------


def world() -> DeviceMesh:
    return init_device_mesh("cpu", (torch.distributed.get_world_size(),), mesh_dim_names=("dp",))


def shard(module: nn.Module, parts: Any, mesh: DeviceMesh | None = None, **options: Any) -> Any:
    """``fully_shard`` of the parts and of the whole; sums, since Gloo has no mean."""
    mesh = mesh or world()
    for part in parts:
        fully_shard(part, mesh=mesh, **options)
    fully_shard(module, mesh=mesh, **options)
    for part in (*parts, module):
        part.set_force_sum_reduction_for_comms(True)
    return module


def linears(module: nn.Module) -> list[nn.Module]:
    return [m for m in module.modules() if isinstance(m, nn.Linear)]


def build_mlp(**options: Any) -> Program:
    module = mlp(64, 128, 96, 32)
    return Program(shard(module, linears(module), **options), args=(torch.zeros(16, 64),))


def build_uneven() -> Program:
    module = mlp(13, 7, 1, 5)
    return Program(shard(module, linears(module)), args=(torch.zeros(3, 13),))


def build_transformer(again: bool = False, nested: bool = False, **options: Any) -> Program:
    module = Transformer(again=again)
    parts = [part for block in module.blocks for part in ((block.mlp, block) if nested else (block,))]
    return Program(shard(module, parts, **options), args=(torch.zeros(4, 16, dtype=torch.int64),))


def build_whole() -> Program:
    return Program(shard(Transformer(), []), args=(torch.zeros(4, 16, dtype=torch.int64),))


def build_replicas() -> Program:
    """Each weight is whole on every rank; gradients are reduced over the replicas."""
    mesh = init_device_mesh(
        "cpu", (torch.distributed.get_world_size(), 1), mesh_dim_names=("replicate", "shard")
    )
    module = mlp(64, 128, 96, 32)
    return Program(shard(module, linears(module), mesh), args=(torch.zeros(16, 64),))


def build_tensor_parallel() -> Program:
    module = Transformer()
    plan = {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()}
    for block in module.blocks:
        parallelize_module(block, world(), plan)
    return Program(module, args=(torch.zeros(4, 16, dtype=torch.int64),))


BF16_POLICY = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

PROGRAMS: dict[str, Callable[[], Program]] = {
    "mlp": build_mlp,
    "mlp, weights kept": lambda: build_mlp(reshard_after_forward=False),
    "mlp, mixed precision": lambda: build_mlp(mp_policy=BF16_POLICY),
    "uneven": build_uneven,
    "transformer": build_transformer,
    "transformer, mixed precision": lambda: build_transformer(mp_policy=BF16_POLICY),
    "transformer, nested": lambda: build_transformer(nested=True),
    "transformer, checkpointed": lambda: build_transformer(again=True),
    "transformer, in one piece": build_whole,
    "replicas": build_replicas,
    "tensor parallel": build_tensor_parallel,
}
MICRO_BATCHES = {"uneven": 2, "transformer, nested": 2}


def optimizer_of(name: str) -> OptimizerChoice:
    """A loop over weights, with its temporaries, where they are few; else the faster fused one."""
    return OptimizerChoice("adamw", "fused" if name.startswith("transformer") else "loop")


# ---- real ranks --------------------------------------------------------------------------------------


def run_on_real_ranks(world_size: int, folder: Path) -> list[dict[str, Any]]:
    """What each rank of a real world wrote, program by program."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, __file__, str(world_size), str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS_AT_MOST, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]


def tensors_of(program: Program) -> Iterator[Tensor]:
    yield from (t for t in torch.utils._pytree.tree_leaves((program.args, dict(program.kwargs))))


#: What FSDP2 calls, by its name since torch 2.13 or before.
REDUCE_SCATTER = next(
    name for name in ("reduce_scatter_single", "reduce_scatter_tensor") if hasattr(torch.distributed, name)
)


def settle() -> None:
    """Let Gloo's workers let go of a collective's buffers: they do so some time after it is done.

    Nobody says when; a worker needs a few microseconds, and gets a processor while this sleeps.
    """
    time.sleep(0.03)


class TrackerOutsideOfCollectives(MemTracker):
    """PyTorch's tracker, blind to what a collective does inside and to fake tensors.

    Gloo reduce-scatters a copy of its input that it makes for itself; NCCL has no such copy, and neither
    is part of the program. Distributed tensors find shapes by whole tensors that hold nothing, which a mode
    sees in torch 2.10 and 2.11.
    """

    is_inside = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (self.is_inside and func.namespace == "aten") or active_fake_mode() is not None:
            return func(*args, **(kwargs or {}))
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if func.name() == "_c10d_functional::wait_tensor":
            settle()
        return out

    @contextmanager
    def outside(self) -> Iterator[None]:
        reduce_scatter = getattr(torch.distributed, REDUCE_SCATTER)

        def unseen(*args: Any, **kwargs: Any) -> Any:
            self.is_inside = True
            try:
                return reduce_scatter(*args, **kwargs)
            finally:
                self.is_inside = False

        wait = torch.distributed.Work.wait

        def settled(work: Any, *args: Any, **kwargs: Any) -> Any:
            done = wait(work, *args, **kwargs)
            settle()
            return done

        setattr(torch.distributed, REDUCE_SCATTER, unseen)
        torch.distributed.Work.wait = settled  # type: ignore[method-assign]
        try:
            yield
        finally:
            setattr(torch.distributed, REDUCE_SCATTER, reduce_scatter)
            torch.distributed.Work.wait = wait  # type: ignore[method-assign]


def observe(name: str) -> dict[str, Any]:
    """Two real steps; peak bytes and collectives of the second."""
    program, micro_batches = PROGRAMS[name](), MICRO_BATCHES.get(name, 1)
    program.module.train()
    optimizer = build_optimizer(optimizer_of(name), program.module)
    run_training_step(program, optimizer, micro_batches)
    tracker, log = TrackerOutsideOfCollectives(), CollectiveLog()
    tracker.track_external(program.module, optimizer, *tensors_of(program))

    def on_phase(phase: Phase) -> None:
        if phase is Phase.FORWARD:  # of which the tracker refuses a second one, unless figures by module go
            tracker.reset_mod_stats()

    with tracker.outside(), tracker, log:
        run_training_step(program, optimizer, micro_batches, on_phase)
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    return {"peak_bytes": peak, "collectives": log.seen}


#: Operator → its name here, which argument is the full buffer (None: the result), which is the group.
OPERATORS: dict[str, tuple[str, int | None, int]] = {
    "c10d::_allgather_base_": ("all_gather", 0, 2),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1, 2),
    "c10d::allreduce_": ("all_reduce", 0, 1),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", None, 2),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", 0, 3),
    "_c10d_functional::all_reduce": ("all_reduce", 0, 2),
}


class CollectiveLog(TorchDispatchMode):
    """Name, bytes of the full buffer and ranks of each collective, read from the operators' arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        name = func.name()
        if name not in OPERATORS:
            return out
        word, of_tensor, of_group = OPERATORS[name]
        tensor, group = (out if of_tensor is None else args[of_tensor]), args[of_group]
        tensor = tensor[0] if isinstance(tensor, list) else tensor
        if isinstance(group, str):
            group = torch._C._distributed_c10d._resolve_process_group(group)
        elif not isinstance(group, torch.distributed.ProcessGroup):
            group = torch.distributed.ProcessGroup.unbox(group)
        ranks = torch.distributed.get_process_group_ranks(group)
        self.seen.append([word, tensor.numel() * tensor.itemsize, ranks])
        return out


def be_rank(rank: int, world_size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=SECONDS_AT_MOST / 2),
    )
    seen = {name: observe(name) for name in PROGRAMS}
    torch.distributed.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(seen))


def main(world_size: int, folder: Path) -> int:
    """Ranks are forked from here, where PyTorch is imported but has not yet run a thing."""
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=be_rank, args=(rank, world_size, folder)) for rank in range(world_size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return max(abs(process.exitcode or 0) for process in ranks)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
