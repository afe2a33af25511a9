"""The cost model of an automatic-parallelism project: fitted lines, liveness, a device mesh.

"Cost Model" (documentation page of the project; no figures are printed there, so none are reproduced).

    operator   max(compute, memory), each latency + work / rate, fitted per family     cost/linear
    memory     persistent state and what is live; the largest sum                      memory_use/liveness
    mesh       all-reduce along axis i takes latency_i + bytes / bandwidth_i, by linear regression over a
               profile of the axis (predefined mesh), or of the axes that discovery finds
               (cost/collective_fit, measure/mesh_discovery)

Composed of the rooms named above: profiles come from ``perfcast calibrate`` and ``perfcast mesh profile``,
discovered meshes from ``perfcast mesh discover``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.graph import Graph
from perfcast.core.hardware import Device
from perfcast.core.operation import OperationKind
from perfcast.cost.collective_fit.affine import fit_affine
from perfcast.cost.linear import LinearCost
from perfcast.errors import PlanError
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.memory_use.liveness import peak_bytes
from perfcast.published.comparison import Comparison, print_comparison


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """Devices along one axis, and the line of its all-reduce."""

    name: str
    size: int
    latency_seconds: float
    bytes_per_second: float

    def seconds(self, num_bytes: float) -> float:
        """Of an all-reduce of so many bytes."""
        return self.latency_seconds + num_bytes / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class MeshCost:
    """What the cost model says of one step."""

    operator_seconds: float
    communication_seconds: float
    peak_memory_bytes: int


def fit_axis(name: str, size: int, sizes_bytes: Sequence[float], seconds: Sequence[float]) -> MeshAxis:
    """Linear regression over the profile of one axis.

    Raises:
        CalibrationError: Times that fall as messages grow.
    """
    line = fit_affine(np.asarray(sizes_bytes, dtype=np.float64), np.asarray(seconds, dtype=np.float64))
    return MeshAxis(name, size, line.latency_seconds, line.bytes_per_second)


def discovered_axes(mesh: DiscoveredMesh) -> tuple[MeshAxis, ...]:
    """The axes of a discovered mesh, outermost first.

    A ring of n sends 2 (n - 1) messages of 1 / n one after the other over the axis's links.

    Raises:
        PlanError: Groups that differ in size, which have no axes.
    """
    if not mesh.shape:
        raise PlanError("the discovered groups differ in size: no axis joins equal numbers of devices")
    axes = []
    for index, (size, axis) in enumerate(zip(mesh.shape, mesh.axes, strict=True)):
        steps = 2 * (size - 1)
        latency = steps * axis.latency_seconds
        axes.append(MeshAxis(f"axis {index}", size, latency, axis.bytes_per_second * size / steps))
    return tuple(axes)


def estimate_step(graph: Graph, device: Device, lines: LinearCost, axes: Sequence[MeshAxis]) -> MeshCost:
    """Price a graph: operators by the fitted lines, collectives by the axis that has as many ranks.

    Raises:
        PlanError: A collective over a number of ranks that no axis has.
    """
    by_size = {axis.size: axis for axis in axes}
    compute = [operation for operation in graph.operations if operation.kind is not OperationKind.COLLECTIVE]
    priced = dict(zip(compute, lines.estimate(compute, device).seconds.tolist(), strict=True))
    operator_seconds = communication_seconds = 0.0
    for node in graph.nodes:
        operation = graph.operations[node.operation]
        if operation in priced:
            operator_seconds += priced[operation]
            continue
        size = len(group_ranks(operation))
        if size not in by_size:
            raise PlanError(f"{operation.name} over {size} ranks; the mesh has axes of {sorted(by_size)}")
        communication_seconds += by_size[size].seconds(message_bytes(operation))
    return MeshCost(operator_seconds, communication_seconds, peak_bytes(graph))


def compare(data: Path | None = None) -> Comparison:
    """No figures: the page prints none."""
    return Comparison(
        system="mesh_cost_model",
        paper='"Cost Model", documentation page of an automatic-parallelism project',
        protocol="Lines and meshes are measured here by perfcast calibrate, mesh profile and mesh discover.",
        reason="The page prints no figures, so there are none to compare.",
    )


if __name__ == "__main__":
    print_comparison(compare)
