"""What JSON holds of clusters, and of a collective's prices over message sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.cost.collective.sweep import CollectiveSweep
from perfcast.report.answers import Answer, view
from perfcast.simulate.network.mesh import FabricTime


@dataclass(frozen=True, kw_only=True)
class LevelData:
    """A level of a cluster, the innermost first.

    Attributes:
        name: Of the level.
        size: Members, each of the level below; null where a cluster is asked for with its devices.
        kind: Of its links.
        latency_seconds: Of a link, in seconds.
        bytes_per_second: Of a link, one way.
        is_duplex: Whether both ways run at once.
        is_switched: Whether all pairs talk at once.
        oversubscription: Bandwidth below over that above.
        reduces_in_network: Whether switches add.
    """

    name: str
    size: int | None
    kind: str
    latency_seconds: float
    bytes_per_second: float
    is_duplex: bool
    is_switched: bool
    oversubscription: float
    reduces_in_network: bool


@dataclass(frozen=True, kw_only=True)
class ClusterData:
    """A cluster.

    Attributes:
        name: Catalog name.
        title: Name in words.
        device: Catalog name.
        num_devices: Devices.
        levels: From the devices outwards.
        note: What else is to be known.
    """

    name: str
    title: str
    device: str
    num_devices: int
    levels: tuple[LevelData, ...]
    note: str


@dataclass(frozen=True, kw_only=True)
class SizeData:
    """One message size.

    Attributes:
        message_bytes: Full buffer, in bytes.
        seconds: Best estimate, in seconds.
        seconds_low: Low end of a 90 % interval, in seconds.
        seconds_high: High end of a 90 % interval, in seconds.
        latency_seconds: Of it, what no larger bandwidth would save, in seconds.
        bus_bytes_per_second: What crosses the slowest link.
        algorithm: Null where there is none to choose.
        protocol: Null where there is none to choose.
    """

    message_bytes: float
    seconds: float
    seconds_low: float
    seconds_high: float
    latency_seconds: float
    bus_bytes_per_second: float
    algorithm: str | None
    protocol: str | None


@dataclass(frozen=True, kw_only=True)
class BusyLink:
    """A link of a fabric.

    Attributes:
        link: Name.
        utilisation: Share of the time in which it is full.
    """

    link: str
    utilisation: float


@dataclass(frozen=True, kw_only=True)
class SimulatedData:
    """One message size, flow by flow.

    Attributes:
        message_bytes: Full buffer, in bytes.
        seconds: Until the last flow has ended, in seconds.
        is_exact: Whether every flow was simulated.
        busiest_links: The most used first.
    """

    message_bytes: float
    seconds: float
    is_exact: bool
    busiest_links: tuple[BusyLink, ...]


@dataclass(frozen=True, kw_only=True)
class MeasuredData:
    """Measured points.

    Attributes:
        name: Source.
        message_bytes: Full buffers, in bytes.
        bus_bytes_per_second: At each size.
    """

    name: str
    message_bytes: tuple[float, ...]
    bus_bytes_per_second: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class CollectiveSweepData(Answer):
    """Prices of a collective over message sizes.

    Attributes:
        cluster: The links.
        mesh: Axes and their sizes.
        collective: Name.
        axes: Those that it runs on.
        group_size: Devices of a group.
        span: Members on each level.
        concurrent_groups: That run at once.
        sizes: Priced.
        simulated: Flow by flow; empty where that was not asked for.
        measured: Points beside the forecast.
    """

    table: ClassVar[str] = "sizes"

    cluster: ClusterData
    mesh: Mapping[str, int]
    collective: str
    axes: tuple[str, ...]
    group_size: int
    span: tuple[int, ...]
    concurrent_groups: int
    sizes: tuple[SizeData, ...]
    simulated: tuple[SimulatedData, ...]
    measured: tuple[MeasuredData, ...]


def data_of(
    sweep: CollectiveSweep,
    mesh: DeviceMesh,
    measured: Sequence[tuple[str, Sequence[float], Sequence[float]]] = (),
    simulated: Sequence[FabricTime] = (),
) -> CollectiveSweepData:
    """Everything, in SI."""
    return view(
        CollectiveSweepData,
        sweep,
        cluster=cluster_data(mesh.cluster),
        mesh=dict(zip(mesh.names, mesh.sizes, strict=True)),
        sizes=_sizes(sweep),
        simulated=tuple(_simulated(time) for time in simulated),
        measured=tuple(
            MeasuredData(name=name, message_bytes=tuple(sizes), bus_bytes_per_second=tuple(rates))
            for name, sizes, rates in measured
        ),
    )


def cluster_data(cluster: Cluster) -> ClusterData:
    """A cluster in SI."""
    levels = tuple(view(LevelData, level.link, name=level.name, size=level.size) for level in cluster.levels)
    return view(ClusterData, cluster, levels=levels)


def _sizes(sweep: CollectiveSweep) -> tuple[SizeData, ...]:
    times, rates = sweep.times, sweep.bus_bytes_per_second
    return tuple(
        SizeData(
            message_bytes=size,
            seconds=float(times.seconds[index]),
            seconds_low=float(times.low[index]),
            seconds_high=float(times.high[index]),
            latency_seconds=float(times.latency_seconds[index]),
            bus_bytes_per_second=float(rates[index]),
            algorithm=times.algorithm(index) or None,
            protocol=times.protocol(index) or None,
        )
        for index, size in enumerate(sweep.message_bytes.tolist())
    )


def _simulated(time: FabricTime) -> SimulatedData:
    busiest = tuple(BusyLink(link=link, utilisation=used) for link, used in time.busiest)
    return view(SimulatedData, time, busiest_links=busiest)
