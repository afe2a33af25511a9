"""A device mesh: the devices of a cluster arranged along named axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.machine.cluster import Cluster
from perfcast.errors import PlanError, UnknownNameError


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """Ranks in row-major order of the axes, the first varying slowest.

    Attributes:
        ranks: Device of each place, in the mesh's order; empty says: 0, 1, 2 …

    Raises:
        PlanError: A shape that does not multiply up to the cluster's devices, or ranks missing or twice.
    """

    cluster: Cluster
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names):
            raise PlanError(f"mesh axes {self.names} and sizes {self.sizes} do not belong together")
        product, count = math.prod(self.sizes), self.cluster.num_devices
        if product != count:
            shape = " · ".join(map(str, self.sizes))
            raise PlanError(f"a mesh of {shape} = {product} places does not hold {count} devices")
        if self.ranks and sorted(self.ranks) != list(range(count)):
            raise PlanError(f"the ranks of a mesh must be 0 … {count - 1}, each once")

    def group(self, axes: Sequence[str], rank: int = 0) -> tuple[int, ...]:
        """The ranks that share all coordinates with ``rank`` but those of the axes.

        Raises:
            UnknownNameError: An axis that the mesh does not have.
            PlanError: One that is named twice.
        """
        if len(set(axes)) != len(axes):
            raise PlanError(f"axes {', '.join(axes)}: one is named twice; name each once")
        for axis in axes:
            if axis not in self.names:
                raise UnknownNameError("mesh axis", axis, self.names, f"Axes: {', '.join(self.names)}.")
        place = self.ranks.index(rank) if self.ranks else rank
        places = [0]
        stride = math.prod(self.sizes)
        for name, size in zip(self.names, self.sizes, strict=True):
            stride //= size
            coordinate = place // stride % size
            steps = range(size) if name in axes else (coordinate,)
            places = [at + step * stride for at in places for step in steps]
        return tuple(self.ranks[at] if self.ranks else at for at in places)
