"""``perfcast mesh cost``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.errors import InputError
from perfcast.units import GIB, GIGA, KIB, KILO, MEGA, MIB, TERA, TIB

if TYPE_CHECKING:
    from perfcast.core.mesh import DeviceMesh
    from perfcast.cost.collective.sweep import CollectiveSweep
    from perfcast.report.documents.collectives import Points
    from perfcast.simulate.network.mesh import FabricTime

_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]?i?b?)", re.IGNORECASE)
_UNITS = {
    "": 1.0, "b": 1.0, "kb": KILO, "mb": MEGA, "gb": GIGA, "tb": TERA,
    "kib": float(KIB), "mib": float(MIB), "gib": float(GIB), "tib": float(TIB),
    "k": float(KIB), "m": float(MIB), "g": float(GIB), "t": float(TIB),
}  # fmt: skip
_RANGE = "1KB..1GB"


@click.command(name="cost")
@click.option(
    "--cluster", "cluster_name", required=True, help="Name, NAME:N or file.toml:N; see catalog clusters."
)
@click.option(
    "--mesh", "shape", default="", help="Axes, the slowest first, as in dp=8,tp=8; default: one, world."
)
@click.option("--collective", required=True, help="all_reduce, all_gather, all_to_all, send …")
@click.option(
    "--bytes", "sizes", default=_RANGE, show_default=True, help="1GB, 512MiB, or a range by powers of two."
)
@click.option("--axes", default="", help="Comma-separated axes that form the group; default: all.")
@click.option(
    "--algorithm", default="nccl", show_default=True, help="nccl (its choice), best, or one by name."
)
@click.option("--groups", type=click.IntRange(1), help="Groups at once; default: all groups of the axes.")
@click.option(
    "--profile", "profile_path", metavar="FILE", help="A measured profile to draw beside the forecast."
)
@click.option(
    "--data", multiple=True, metavar="DIR", help="Measured tables to draw beside it; may be repeated."
)
@click.option(
    "--network", metavar="FABRIC", help="Simulate flows too: star, fat-tree:radix=64,oversubscription=2, …"
)
@click.option("--fail", "failed", multiple=True, metavar="A:B", help="With --network: a link that is down.")
@output_options(html=True)
def cost(
    cluster_name: str,
    shape: str,
    collective: str,
    sizes: str,
    axes: str,
    algorithm: str,
    groups: int | None,
    profile_path: str | None,
    data: tuple[str, ...],
    network: str | None,
    failed: tuple[str, ...],
    outputs: Outputs,
) -> None:
    """Forecast a collective on axes of a mesh, from the cluster's datasheet.

    With --network, every group of the axes is also simulated flow by flow on a fabric (ring, unless
    --algorithm names one): what shares a link, shares its rate.
    """
    from perfcast.cost.collective.sweep import sweep_sizes
    from perfcast.report.data.collectives import data_of
    from perfcast.report.documents.collectives import document_of

    mesh = parse_mesh(cluster_name, shape)
    names = tuple(name.strip() for name in axes.split(",") if name.strip()) or mesh.names
    sweep = sweep_sizes(
        mesh, names, collective, parse_sizes(sizes), algorithm=algorithm, concurrent_groups=groups
    )
    measured = _measured(sweep, mesh, profile_path, data)
    simulated = _simulate(mesh, names, collective, sizes, algorithm, network, failed)
    write_answer(
        outputs,
        lambda: document_of(sweep, mesh, measured, simulated, network or "", is_decimal=says_decimal(sizes)),
        lambda: data_of(sweep, mesh, measured, simulated),
    )


def _simulate(
    mesh: DeviceMesh,
    axes: tuple[str, ...],
    collective: str,
    sizes: str,
    algorithm: str,
    network: str | None,
    failed: tuple[str, ...],
) -> tuple[FabricTime, ...]:
    if network is None:
        if failed:
            raise InputError("--fail is of a --network")
        return ()
    from perfcast.simulate.network.mesh import simulate_axes

    links = [tuple(part.strip() for part in text.split(":")) for text in failed]
    if any(len(link) != 2 for link in links):
        raise InputError("--fail takes two names of switches, as in 'leaf 0:spine 1'")
    return simulate_axes(
        mesh,
        axes,
        collective,
        parse_sizes(sizes),
        network,
        algorithm=None if algorithm in ("nccl", "best") else algorithm,
        failed_links=[(link[0], link[1]) for link in links],
    )


def parse_mesh(cluster_name: str, shape: str) -> DeviceMesh:
    """A mesh on a cluster; without a number of devices the cluster is as large as the mesh.

    Raises:
        InputError: An unknown cluster, an axis that is not NAME=SIZE, or a shape that does not fit.
    """
    from perfcast.catalog.clusters import load_cluster
    from perfcast.core.mesh import DeviceMesh

    axes: list[tuple[str, int]] = []
    for item in filter(None, (part.strip() for part in shape.split(","))):
        name, _, size = item.partition("=")
        if not name or not size.isdecimal() or int(size) < 1:
            raise InputError(f"--mesh: '{item}' is not AXIS=SIZE; write for example dp=8,tp=8")
        axes.append((name, int(size)))
    if axes and ":" not in cluster_name:
        count = 1
        for _, size_of_axis in axes:
            count *= size_of_axis
        cluster_name = f"{cluster_name}:{count}"
    cluster = load_cluster(cluster_name)
    axes = axes or [("world", cluster.num_devices)]
    return DeviceMesh(cluster, tuple(name for name, _ in axes), tuple(size for _, size in axes))


def parse_sizes(text: str) -> list[float]:
    """'1GB' → one size; '1KB..1GB' → from the first, doubling, to the last, which is always one of them.

    Raises:
        InputError: Not a size, or a range that falls.
    """
    first, dots, last = text.partition("..")
    least = parse_bytes(first)
    if not dots:
        return [least]
    most = parse_bytes(last)
    if not 0 < least <= most:
        raise InputError(f"--bytes {text}: a range goes from a size above zero to a larger one")
    sizes = []
    while least < most * (1 - 1e-9):
        sizes.append(least)
        least *= 2
    return [*sizes, most]


def says_decimal(text: str) -> bool:
    """Whether sizes are said in MB and the like, not in MiB or plain numbers.

    >>> says_decimal("1KB..1GB"), says_decimal("1MiB"), says_decimal("4096")
    (True, False, False)
    """
    units = [match.group(2).lower() for match in _SIZE.finditer(text) if match.group(2)]
    return bool(units) and all(unit in ("kb", "mb", "gb", "tb") for unit in units)


def parse_bytes(text: str) -> float:
    """'512MiB' → 536870912.0.

    Raises:
        InputError: Not a number with a unit of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = match.group(2).lower() if match else "?"
    if match is None or unit not in _UNITS:
        raise InputError(f"'{text}' is not a size; write for example 4096, 64KiB or 1GB")
    return float(match.group(1)) * _UNITS[unit]


def _measured(
    sweep: CollectiveSweep, mesh: DeviceMesh, profile_path: str | None, data: tuple[str, ...]
) -> list[Points]:
    points: list[Points] = []
    if profile_path:
        from perfcast.cost.cluster_profile import load_cluster_profile, price_collective

        profile = load_cluster_profile(profile_path)
        seconds = price_collective(profile, sweep.collective, sweep.axes, sweep.message_bytes)
        rates = sweep.message_bytes * sweep.bus_factor / seconds
        points.append((f"profile {profile.name}", sweep.message_bytes.tolist(), rates.tolist()))
    if data:
        from perfcast.evidence.validate.collectives.cases import measured_points

        points += measured_points(
            [Path(place) for place in data], mesh.cluster.name, sweep.span, sweep.collective
        )
    return points
