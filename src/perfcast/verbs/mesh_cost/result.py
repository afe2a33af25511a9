"""What ``perfcast mesh cost`` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.core.machine.mesh import DeviceMesh
    from perfcast.cost.collective.sweep import CollectiveSweep
    from perfcast.report.data.collectives import CollectiveSweepData
    from perfcast.report.document import Document
    from perfcast.report.documents.collectives import Points
    from perfcast.simulate.network.mesh import FabricTime


@dataclass(frozen=True, kw_only=True)
class CollectiveForecast:
    """A collective of several sizes on axes of a mesh.

    Attributes:
        measured: Name, message bytes and bus bandwidths of what was measured beside.
        simulated: Of every size, flow by flow; () where no fabric was named.
        fabric: Its name; '' where none was.
        is_decimal: Whether sizes were said in MB and the like.
    """

    sweep: CollectiveSweep
    mesh: DeviceMesh
    measured: tuple[Points, ...]
    simulated: tuple[FabricTime, ...]
    fabric: str
    is_decimal: bool


class MeshCostResult(Shown, CollectiveForecast):
    """What a collective takes."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.collectives import document_of

        return document_of(
            self.sweep, self.mesh, self.measured, self.simulated, self.fabric, is_decimal=self.is_decimal
        )

    def data(self) -> CollectiveSweepData:
        """As JSON holds it."""
        from perfcast.report.data.collectives import data_of

        return data_of(self.sweep, self.mesh, self.measured, self.simulated)
