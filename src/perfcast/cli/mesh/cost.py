"""``perfcast mesh cost``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.verbs.mesh_cost.question import MeshCostQuestion

if TYPE_CHECKING:
    from perfcast.core.machine.mesh import DeviceMesh
    from perfcast.cost.collective.sweep import CollectiveSweep
    from perfcast.report.documents.collectives import Points


@click.command(name="cost")
@asking(
    MeshCostQuestion,
    click.option("--cluster", required=True),
    click.option("--mesh", default=""),
    click.option("--collective", required=True),
    click.option("--bytes", default="1KB..1GB", show_default=True),
    click.option("--axes", default=""),
    click.option("--algorithm", default="nccl", show_default=True),
    click.option("--groups", type=int),
    click.option("--profile", metavar="FILE"),
    click.option(
        "--data", multiple=True, metavar="DIR", help="Measured tables to draw beside it; may be repeated."
    ),
    click.option("--network", metavar="FABRIC"),
    click.option("--fail", multiple=True, metavar="A:B"),
)
@output_options(html=True)
def cost(asked: MeshCostQuestion, data: tuple[str, ...], outputs: Outputs) -> None:
    """Forecast a collective on axes of a mesh, from the cluster's datasheet.

    With --network, every group of the axes is also simulated flow by flow on a fabric (ring, unless
    --algorithm names one): what shares a link, shares its rate.
    """
    from perfcast.verbs.mesh_cost.answer import answer

    def measured(sweep: CollectiveSweep, mesh: DeviceMesh) -> Sequence[Points]:
        if not data:
            return []
        from perfcast.evidence.validate.collectives.cases import measured_points

        return measured_points(
            [Path(place) for place in data], mesh.cluster.name, sweep.span, sweep.collective
        )

    with status("pricing collectives") as on_progress:
        found = answer(asked, on_progress=on_progress, measured=measured)
    write_result(outputs, found)
