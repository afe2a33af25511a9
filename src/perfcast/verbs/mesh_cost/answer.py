"""What answers the question of ``perfcast mesh cost``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perfcast.errors import InputError
from perfcast.verbs.door import asks
from perfcast.verbs.mesh_cost.question import MeshCostQuestion
from perfcast.verbs.mesh_cost.request import parse_mesh, parse_sizes, says_decimal
from perfcast.verbs.mesh_cost.result import CollectiveForecast, MeshCostResult
from perfcast.verbs.question import each
from perfcast.verbs.result import shown

if TYPE_CHECKING:
    from perfcast.core.machine.mesh import DeviceMesh
    from perfcast.cost.collective.sweep import CollectiveSweep
    from perfcast.report.documents.collectives import Points
    from perfcast.simulate.network.mesh import FabricTime
    from perfcast.verbs.answer import OnProgress

    #: Finds what was measured of the same collective on such a mesh.
    Measured = Callable[[CollectiveSweep, DeviceMesh], Sequence[Points]]


def answer(
    asked: MeshCostQuestion, *, on_progress: OnProgress | None = None, measured: Measured | None = None
) -> MeshCostResult:
    """The collective that is asked for.

    Args:
        measured: What else was measured; None: nothing but the profile that is asked for.

    Raises:
        InputError: An unknown cluster, collective, algorithm or fabric; sizes that are none.
    """
    from perfcast.cost.collective.sweep import sweep_sizes

    mesh, sizes = parse_mesh(asked.cluster, asked.text("mesh")), asked.text("bytes")
    names = tuple(name.strip() for name in asked.text("axes").split(",") if name.strip()) or mesh.names
    sweep = sweep_sizes(
        mesh,
        names,
        asked.collective,
        parse_sizes(sizes),
        algorithm=asked.text("algorithm"),
        concurrent_groups=asked.groups,
    )
    beside = [] if asked.profile is None else [_of_profile(sweep, asked.profile)]
    if on_progress is not None:
        on_progress(None, "pricing collectives")
    found = CollectiveForecast(
        sweep=sweep,
        mesh=mesh,
        measured=(*beside, *([] if measured is None else measured(sweep, mesh))),
        simulated=_simulated(asked, mesh, names),
        fabric=asked.network or "",
        is_decimal=says_decimal(sizes),
    )
    return shown(MeshCostResult, found, asked)


def _of_profile(sweep: CollectiveSweep, path: str) -> Points:
    from perfcast.cost.cluster_profile import load_cluster_profile, price_collective, price_doubt

    profile = load_cluster_profile(path)
    seconds = price_collective(profile, sweep.collective, sweep.axes, sweep.message_bytes)
    rates = sweep.message_bytes * sweep.bus_factor / seconds
    doubt = price_doubt(profile, sweep.collective, sweep.axes)
    name = f"profile {profile.name}" + (f", doubtful: {doubt}" if doubt else "")
    return name, sweep.message_bytes.tolist(), rates.tolist()


def _simulated(asked: MeshCostQuestion, mesh: DeviceMesh, axes: tuple[str, ...]) -> tuple[FabricTime, ...]:
    failed = each(asked.fail)
    if asked.network is None:
        if failed:
            raise InputError("--fail is of a --network")
        return ()
    from perfcast.simulate.network.mesh import simulate_axes

    links = [tuple(part.strip() for part in text.split(":")) for text in failed]
    if any(len(link) != 2 for link in links):
        raise InputError("--fail takes two names of switches, as in 'leaf 0:spine 1'")
    algorithm = asked.text("algorithm")
    return simulate_axes(
        mesh,
        axes,
        asked.collective,
        parse_sizes(asked.text("bytes")),
        asked.network,
        algorithm=None if algorithm in ("nccl", "best") else algorithm,
        failed_links=[(link[0], link[1]) for link in links],
    )


mesh_cost = asks(MeshCostQuestion, answer, returns="Seconds and bandwidths of every size, and why.")
