"""What a profile measures: the axes of a mesh, the collectives, the message sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import Any, Literal, get_args

import numpy as np

from perfcast.errors import InputError, UnknownNameError
from perfcast.units import KIB, MIB

#: Measured unless the caller names others; ``send`` goes from the even to the odd ranks of an axis and back.
PROFILED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send")
LEAST_BYTES, MOST_BYTES = KIB, 64 * MIB
#: Ways for collectives to go: between processors, or between NVIDIA's GPUs.
Backend = Literal["gloo", "nccl"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
_CHUNK = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis of the mesh and its length."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Sizes of one collective along one axis that are measured in turns."""

    axis: Axis
    collective: str
    sizes_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """Everything that all ranks must agree on.

    Attributes:
        axes: In row-major order of the ranks, the first varying slowest.
        backend: 'gloo' or 'nccl'.
        collectives: Of ``PROFILED``.
        sizes_bytes: Message sizes wanted; a buffer is rounded up so that ranks get whole elements.
        rounds: Times that each size is measured.
        stall_seconds: A rank that waits longer for another gives up.
    """

    axes: tuple[Axis, ...]
    backend: str
    collectives: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    rounds: int = 5
    stall_seconds: float = 25.0

    @property
    def world_size(self) -> int:
        """Ranks of the mesh."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def mesh(self) -> str:
        """``'dp=2,tp=2'``."""
        return ",".join(f"{axis.name}={axis.size}" for axis in self.axes)

    def setup(self) -> str:
        """What must be the same for measurements to belong together."""
        return f"{self.backend}, {self.mesh}, torch {version('torch')}"

    def keys(self) -> set[tuple[str, str, int]]:
        """Axis, collective and size of everything that is measured."""
        return {(c.axis.name, c.collective, size) for c in self.chunks() for size in c.sizes_bytes}

    def chunks(self) -> list[Chunk]:
        """All that is measured; every chunk holds small and large sizes."""
        count = -(-len(self.sizes_bytes) // _CHUNK)
        return [
            Chunk(axis, collective, self.sizes_bytes[start::count])
            for axis in self.axes
            if axis.size > 1
            for collective in self.collectives
            for start in range(count)
        ]

    def groups(self, axis: Axis) -> list[list[int]]:
        """Ranks of every group along an axis."""
        ranks = np.arange(self.world_size).reshape([a.size for a in self.axes])
        last = np.moveaxis(ranks, self.axes.index(axis), -1)
        return [[int(rank) for rank in group] for group in last.reshape(-1, axis.size)]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ProfilePlan:
        """Read back what ``to_json`` made."""
        values = {f.name: data[f.name] for f in fields(cls)}
        values["axes"] = tuple(Axis(**axis) for axis in values["axes"])
        values["collectives"] = tuple(values["collectives"])
        values["sizes_bytes"] = tuple(values["sizes_bytes"])
        return cls(**values)


def make_plan(
    mesh: Sequence[Axis],
    world_size: int,
    backend: str,
    collectives: Sequence[str] = (),
    least_bytes: int = LEAST_BYTES,
    most_bytes: int = MOST_BYTES,
    stall_seconds: float = 25.0,
) -> ProfilePlan:
    """A plan, checked.

    Args:
        mesh: Empty takes one axis, 'world'.
        collectives: Empty takes all of ``PROFILED``.

    Raises:
        InputError: A mesh that does not hold the ranks, fewer than two ranks, or impossible sizes.
        UnknownNameError: A backend or a collective that is not measured.
    """
    axes = tuple(mesh) or (Axis("world", world_size),)
    product = math.prod(axis.size for axis in axes)
    if product != world_size:
        shape = " · ".join(str(axis.size) for axis in axes)
        raise InputError(f"a mesh of {shape} = {product} places does not hold {world_size} ranks")
    if world_size < 2:
        raise InputError("a profile needs at least two ranks to measure anything between them")
    if backend not in BACKENDS:
        raise UnknownNameError("backend", backend, BACKENDS, f"Known: {', '.join(BACKENDS)}.")
    for collective in collectives:
        if collective not in PROFILED:
            raise UnknownNameError("collective", collective, PROFILED, f"Measured: {', '.join(PROFILED)}.")
    if not 0 < least_bytes < most_bytes:
        raise InputError(f"sizes from {least_bytes} to {most_bytes} bytes make no sweep")
    if stall_seconds <= 0:
        raise InputError(f"a rank cannot wait {stall_seconds:g} s for another")
    chosen = tuple(dict.fromkeys(collectives)) or PROFILED
    sizes = sweep(least_bytes, most_bytes)
    return ProfilePlan(axes, backend, chosen, sizes, stall_seconds=stall_seconds)


def sweep(least_bytes: int, most_bytes: int) -> tuple[int, ...]:
    """Doublings from the least to the most, and one and a half of each between them."""
    sizes = []
    size = least_bytes
    while size <= most_bytes:
        sizes.append(size)
        if size + size // 2 < min(2 * size, most_bytes):
            sizes.append(size + size // 2)
        size *= 2
    return tuple(sizes)


def parse_mesh(text: str) -> tuple[Axis, ...]:
    """``'dp=2,tp=4'`` → axes, the first varying slowest.

    Raises:
        InputError: Not of that form, a size below one, or a name twice.
    """
    axes: list[Axis] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, size = (part.strip() for part in item.partition("="))
        if not equals or not name.isidentifier() or not re.fullmatch(r"0*[1-9][0-9]{0,6}", size):
            raise InputError(f"--mesh: '{item}' is not NAME=SIZE, as in dp=2,tp=4")
        if name in (axis.name for axis in axes):
            raise InputError(f"--mesh: the axis '{name}' stands twice")
        axes.append(Axis(name, int(size)))
    return tuple(axes)
