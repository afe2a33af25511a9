"""Train a module of yours with PyTorch's FSDP2 as the plan says. Needs PyTorch 2.6 or newer alone.

Start with torchrun (launch.sh). ``--model FILE.py:FUNCTION`` names a function that returns a module and a
tuple of example inputs of one micro-batch on the processor; the module's result is the loss, or has it as
``.loss``, or its mean is taken.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard


@dataclass(frozen=True)
class Settings:
    """The plan.

    Attributes:
        replicas, shards: Copies of the sharded model, and ranks over which each is sharded.
        reshards: Whether weights are given up between forward and backward.
        reduces_always: Whether gradients are reduced after every micro-batch, or after the last alone.
        num_prefetched: Layers whose weights are gathered ahead.
        recompute_layers: With 'full' recomputation, of the first so many layers alone.
        dtype: Of compute; weights and gradients are kept in fp32.
    """

    micro_batch_size: int = 1
    num_micro_batches: int = 1
    replicas: int = 1
    shards: int = 1
    reshards: bool = True
    reduces_always: bool = True
    num_prefetched: int = 1
    recompute: str = "none"
    recompute_layers: int | None = None
    offload: str = "none"
    dtype: str = "bf16"
    optimizer: str = "adamw"
    learning_rate: float = 1e-4


SETTINGS = Settings()

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD,
    "momentum": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "adafactor": torch.optim.Adafactor,
}  # fmt: skip


def find_layers(model: nn.Module) -> list[nn.Module]:
    """The longest row of modules of one class in a list: the layers of a transformer."""
    rows = [list(part) for part in model.modules() if isinstance(part, nn.ModuleList) and len(part)]
    equal = [row for row in rows if len({type(layer) for layer in row}) == 1]
    if not equal:
        raise SystemExit("the module has no ModuleList of equal layers: name them in find_layers")
    return max(equal, key=len)


def shard_model(model: nn.Module, mesh: DeviceMesh, settings: Settings) -> nn.Module:
    """Recomputation, then sharding of each layer, then of what is left."""
    layers = find_layers(model)
    if settings.recompute == "full":
        wrapped = {layer: checkpoint_wrapper(layer) for layer in layers[: settings.recompute_layers]}
        for part in list(model.modules()):
            for name, child in part.named_children():
                if child in wrapped and part is not wrapped[child]:
                    setattr(part, name, wrapped[child])
        layers = [wrapped.get(layer, layer) for layer in layers]
    dtype = {"bf16": torch.bfloat16}.get(settings.dtype)
    options: dict[str, Any] = {
        "mesh": mesh,
        "reshard_after_forward": settings.reshards,
        "mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32),
        "offload_policy": (
            CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
            if settings.offload == "parameters"
            else OffloadPolicy()
        ),
    }
    sharded: list[Any] = [fully_shard(layer, **options) for layer in layers]
    if settings.num_prefetched > 1:
        for place, layer in enumerate(sharded):
            layer.set_modules_to_forward_prefetch(sharded[place + 1 : place + 1 + settings.num_prefetched])
            first = max(place - settings.num_prefetched, 0)
            layer.set_modules_to_backward_prefetch(sharded[first:place][::-1])
    fully_shard(model, **options)
    return model


def compute_loss(model: nn.Module, inputs: Sequence[Any]) -> Tensor:
    """The module's loss."""
    result = model(*inputs)
    loss = getattr(result, "loss", result)
    return torch.as_tensor(loss).float().mean()


def run_step(
    model: Any, optimizer: torch.optim.Optimizer, batches: Sequence[Sequence[Any]], settings: Settings
) -> float:
    """One step over the micro-batches; the loss of this rank."""
    total = 0.0
    for place, inputs in enumerate(batches):
        is_last = place == len(batches) - 1
        model.set_requires_gradient_sync(settings.reduces_always or is_last)
        keeps = settings.offload == "activations"
        with (
            torch.autograd.graph.save_on_cpu(pin_memory=torch.cuda.is_available())
            if keeps
            else contextlib.nullcontext()
        ):
            loss = compute_loss(model, inputs) / len(batches)
        torch.autograd.backward(loss)
        total += float(loss.detach())
    optimizer.step()
    optimizer.zero_grad()
    return total


def load_function(place: str) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    """The function that ``FILE.py:FUNCTION`` names."""
    path, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("model_of_yours", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{place}: not FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[], tuple[nn.Module, tuple[Any, ...]]] = getattr(module, name)
    return function


def check_inputs(inputs: Sequence[Any], settings: Settings) -> None:
    """Whether the example inputs are one micro-batch of the plan."""
    sizes = {part.shape[0] for part in inputs if isinstance(part, Tensor) and part.dim()}
    if settings.micro_batch_size not in sizes:
        raise SystemExit(
            f"the plan has {settings.micro_batch_size} sequences a micro-batch, the inputs {sizes}"
        )


@contextlib.contextmanager
def open_mesh(settings: Settings) -> Iterator[tuple[DeviceMesh, torch.device]]:
    """All ranks as replicas × shards."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    expected = settings.replicas * settings.shards
    if dist.get_world_size() != expected:
        raise SystemExit(f"the plan is for {expected} ranks, not {dist.get_world_size()}")
    device = (
        torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)
    )
    if kind == "cuda":
        torch.cuda.set_device(device)
    try:
        yield (
            init_device_mesh(
                kind, (settings.replicas, settings.shards), mesh_dim_names=("replicate", "shard")
            ),
            device,
        )
    finally:
        dist.destroy_process_group()


def main() -> None:
    """Some steps on the example inputs, with their time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, metavar="FILE.py:FUNCTION")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if SETTINGS.dtype == "tf32":
        torch.set_float32_matmul_precision("high")
    with open_mesh(SETTINGS) as (mesh, device):
        model, inputs = load_function(options.model)()
        model = shard_model(model, mesh, SETTINGS)
        if SETTINGS.offload != "parameters":
            model.to(device)
        optimizer = _OPTIMIZERS[SETTINGS.optimizer](model.parameters(), lr=SETTINGS.learning_rate)
        check_inputs(inputs, SETTINGS)
        moved = [part.to(device) if isinstance(part, Tensor) else part for part in inputs]
        for step in range(options.steps):
            start = time.perf_counter()
            loss = run_step(model, optimizer, [moved] * SETTINGS.num_micro_batches, SETTINGS)
            if dist.get_rank() == 0:
                print(f"step {step}: loss {loss:.4f}, {time.perf_counter() - start:.3f} s", flush=True)


if __name__ == "__main__":
    main()
