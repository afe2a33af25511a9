"""The cost model of an automatic-parallelism project: fitted lines, liveness, a device mesh.

"Cost Model" (documentation page of the project; no figures are printed there, so none are reproduced).

    operator   max(compute, memory), each latency + work / rate, fitted per family     cost/linear
    memory     persistent state and what is live; the largest sum                      memory_use/operators
    mesh       a collective along axis i takes latency_i + bytes / bandwidth_i, by linear regression over a
               profile of the axis (predefined mesh), or of the axes that discovery finds
               (cost/collective_fit, measure/collectives, measure/mesh_discovery)

``step`` is the formula, ``axes`` the mesh, ``here`` the whole composition on the machine at hand, which
``perfcast mesh step`` runs: calibrate, profile or discover, forecast, and measure the same step.
"""

from perfcast.published.mesh_cost_model.axes import (
    AxisLine,
    Mesh,
    MeshAxis,
    discovered_mesh,
    fit_axis,
    profiled_mesh,
)
from perfcast.published.mesh_cost_model.step import MeshCost, estimate_step

__all__ = [
    "AxisLine",
    "Mesh",
    "MeshAxis",
    "MeshCost",
    "discovered_mesh",
    "estimate_step",
    "fit_axis",
    "profiled_mesh",
]
