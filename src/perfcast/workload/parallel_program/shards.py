"""Work on sharded tensors that a capture need not do tensor by tensor.

What is captured is the same; PyTorch makes all shards of a parameter to keep one, and asks its sharding rules
about each parameter of an optimizer that does the same to every element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard
from torch.optim import Optimizer

from perfcast.torch_internals import replaced
from perfcast.torch_internals.distributed import StridedShard, fsdp_parameters
from perfcast.torch_internals.eager import unset_fake_temporarily
from perfcast.workload.step import OptimizerChoice, build_optimizer


class _Chunks(Sequence[Tensor]):
    """The chunks of a tensor, each made when it is asked for (``torch.chunk``, filled up with empty ones)."""

    def __init__(self, tensor: Tensor, num_chunks: int, dim: int) -> None:
        self._tensor, self._num_chunks, self._dim = tensor, num_chunks, dim
        self._size = -(-tensor.size(dim) // num_chunks)

    def __len__(self) -> int:
        return self._num_chunks

    def __getitem__(self, index: Any) -> Any:
        start = index * self._size
        length = min(self._size, self._tensor.size(self._dim) - start)
        if length <= 0:
            return self._tensor.new_empty(0) if index else self._tensor
        return self._tensor.narrow(self._dim, start, length)


@contextmanager
def lazy_shards() -> Iterator[None]:
    """``fully_shard`` makes of each parameter the shard that it keeps."""
    with replaced(fsdp_parameters, "_chunk_with_empty", _Chunks):
        yield


@dataclass(frozen=True)
class Sharding:
    """How a parameter is split over a mesh.

    Attributes:
        shape: Of the whole parameter.
        mesh_shape: Ranks along each axis of the mesh.
        ranks: Of the mesh, its last axis fastest.
        splits: Of each axis, the dim that it splits, or -1; and whether axes after it split it first.
    """

    shape: tuple[int, ...]
    mesh_shape: tuple[int, ...]
    ranks: tuple[int, ...]
    splits: tuple[tuple[int, bool], ...]


def shardings_of(module: nn.Module) -> tuple[Sharding, ...]:
    """Of a module's distributed parameters."""
    tables: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    found = []
    for parameter in module.parameters():
        if not isinstance(parameter, DTensor):
            continue
        mesh = parameter.device_mesh
        if id(mesh) not in tables:
            with unset_fake_temporarily():  # a mesh's ranks are real numbers
                tables[id(mesh)] = (tuple(mesh.shape), tuple(mesh.mesh.flatten().tolist()))
        splits = tuple(
            (placement.dim, isinstance(placement, StridedShard))
            if isinstance(placement, Shard | StridedShard)
            else (-1, False)
            for placement in parameter.placements
        )
        found.append(Sharding(tuple(parameter.shape), *tables[id(mesh)], splits))
    return tuple(found)


def part_shape(sharding: Sharding, rank: int) -> tuple[int, ...]:
    """Shape of a rank's part; a mesh that the rank is not in does not tell it from the first.

    An axis of n ranks gives ceil(size / n) of a dim to each as long as there is some left.
    """
    place = sharding.ranks.index(rank) if rank in sharding.ranks else 0
    coordinates: list[int] = []
    for size in reversed(sharding.mesh_shape):
        place, coordinate = divmod(place, size)
        coordinates.insert(0, coordinate)
    shape = list(sharding.shape)
    axes = list(zip(sharding.splits, sharding.mesh_shape, coordinates, strict=True))
    for (dim, _), size, at in sorted(axes, key=lambda axis: axis[0][1]):
        if dim >= 0:
            chunk = -(-shape[dim] // size)
            shape[dim] = max(min(chunk, shape[dim] - at * chunk), 0)
    return tuple(shape)


class _Parts(nn.Module):
    """This rank's parts of a module's parameters, as parameters."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(_part(p.detach())) for p in parameters)


class PartsOptimizer:
    """An optimizer that works element by element, on this rank's parts.

    Distributed tensors on one mesh would give the same operations on the same parts, as long as each gradient
    is placed like its parameter. Where one is not, collectives come in between; plain and distributed
    parameters together may be an error. Then the optimizer is run on the parameters themselves.
    """

    def __init__(self, choice: OptimizerChoice, module: nn.Module) -> None:
        self._choice, self._module = choice, module
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        self._own: Optimizer | None = None
        self._parts: Optimizer | None = None

    @property
    def state(self) -> Any:
        """Of whichever optimizer runs."""
        running = self._parts or self._own
        return {} if running is None else running.state

    def step(self) -> None:
        """One step."""
        mesh = getattr(self._parameters[0], "device_mesh", None)
        if self._own is None and all(_is_placed_alike(p, mesh) for p in self._parameters):
            self._step_on_parts()
            return
        self._own = self._own or build_optimizer(self._choice, self._module)
        self._own.step()

    def _step_on_parts(self) -> None:
        if self._parts is None:
            self._held = _Parts(self._parameters)
            self._parts = build_optimizer(self._choice, self._held)
        for part, parameter in zip(self._held.parts, self._parameters, strict=True):
            part.grad = None if parameter.grad is None else _part(parameter.grad)
        self._parts.step()
        for part in self._held.parts:
            part.grad = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients are gone."""
        for parameter in self._module.parameters():
            parameter.grad = None


def _part(tensor: Tensor) -> Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def _is_placed_alike(parameter: nn.Parameter, mesh: Any) -> bool:
    """Whether a distributed parameter lies on a mesh, as its gradient does."""
    if not isinstance(parameter, DTensor) or parameter.device_mesh != mesh:
        return False
    gradient = parameter.grad
    return gradient is None or (
        isinstance(gradient, DTensor)
        and gradient.placements == parameter.placements
        and gradient.device_mesh == mesh
    )
