"""A discovered mesh in the terminal: axes, faults, and how sure it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perfcast.measure.mesh_discovery.found import DiscoveredAxis, DiscoveredMesh
from perfcast.units import format_count, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 16
_MOST_RANKS = 16


def print_mesh(mesh: DiscoveredMesh, console: Console) -> None:
    """Shape, axes, innermost groups, misfits, doubts."""
    from rich.table import Table

    console.print(describe_shape(mesh), markup=False)
    table = Table("Axis", box=None, pad_edge=False)
    for heading in ("Size", "Latency", "Bandwidth", "Spread", "Pairs"):
        table.add_column(heading, justify="right", no_wrap=True)
    for axis in mesh.axes:
        spread = "–" if math.isnan(axis.spread) else f"{axis.spread:.1%}"
        table.add_row(axis.name, str(axis.size), *describe_axis(axis), spread, str(axis.num_pairs))
    console.print(table)
    for group in mesh.groups[-1][:_MOST_GROUPS]:
        console.print(f"  {_shortened(group)}", markup=False)
    if len(mesh.groups[-1]) > _MOST_GROUPS:
        console.print(f"  … {len(mesh.groups[-1]) - _MOST_GROUPS} groups more")
    for misfit in mesh.misfits:
        console.print(f"misfit: {misfit.note}", markup=False)
    console.print(f"confidence {mesh.confidence:.2f}")
    for doubt in mesh.doubts:
        console.print(f"doubt: {doubt}", markup=False)
    if mesh.num_measurements:
        console.print(f"{mesh.num_measured_pairs} pairs, {mesh.num_measurements} measurements")


def describe_shape(mesh: DiscoveredMesh) -> str:
    """``'16 ranks: 2 · 8'``, or the numbers of groups where they differ in size."""
    if mesh.shape:
        return f"{mesh.num_ranks} ranks: {' · '.join(map(str, mesh.shape))}"
    levels = [
        f"{len(groups)} groups of {_range([len(group) for group in groups])}" for groups in mesh.groups[1:]
    ]
    return f"{mesh.num_ranks} ranks, irregular: {', '.join(levels) or 'one group'}"


def describe_axis(axis: DiscoveredAxis) -> tuple[str, str]:
    """Latency and bandwidth with half their 95 % intervals; a dash where they are not known."""
    if axis.num_pairs == 0:
        return "–", "–"
    latency_error = axis.latency_high_seconds / axis.latency_seconds - 1
    bandwidth_error = axis.high_bytes_per_second / axis.bytes_per_second - 1
    return (
        f"{format_seconds(axis.latency_seconds)} ± {latency_error:.1%}",
        f"{format_count(axis.bytes_per_second, 'B/s')} ± {bandwidth_error:.1%}",
    )


def _range(sizes: list[int]) -> str:
    return str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"


def _shortened(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_RANKS]))
    return f"{shown}, … ({len(ranks)})" if len(ranks) > _MOST_RANKS else shown
