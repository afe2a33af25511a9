"""A discovered mesh: axes, faults, doubts, and what was measured between its ranks."""

from __future__ import annotations

import math

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.measure.mesh_discovery.found import DiscoveredAxis, DiscoveredMesh
from perfcast.measure.mesh_discovery.matrix import PairSamples
from perfcast.report.document import Block, Cell, Column, Document, Fact, Items, Note, Section, Table
from perfcast.report.documents.mesh.drawing import groups_figure
from perfcast.report.figure import Axis, Figure, Heatmap
from perfcast.units import format_count, format_seconds

MOST_CELLS = 512
_MOST_TERMINAL_CELLS = 32
_MOST_GROUPS, _MOST_RANKS = 16, 16
_SHADES = "█▓▒░·"
#: Dark for few, light for much, in equal steps that every eye tells apart.
_COLOURS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")


def document_of(mesh: DiscoveredMesh, samples: PairSamples | None) -> Document:
    """Shape, axes, innermost groups, misfits, doubts, and both matrices where pairs were measured."""
    blocks: list[Block] = [
        Section(title="Axes", blocks=(_axes(mesh),)),
        Section(title="The mesh", blocks=(groups_figure(mesh),), only="page"),
        _groups(mesh),
    ]
    for title, notes in (
        ("Misfits", tuple(misfit.note for misfit in mesh.misfits)),
        ("Doubts", tuple(mesh.doubts)),
    ):
        if notes:
            blocks.append(Section(title=title, blocks=(Items(tuple(("·", note) for note in notes)),)))
    if samples is not None:
        blocks += _matrices(mesh, samples)
    facts = [Fact("Confidence", f"{mesh.confidence:.2f}")]
    if mesh.num_measurements:
        pairs = "1 pair" if mesh.num_measured_pairs == 1 else f"{mesh.num_measured_pairs} pairs"
        measured = f"{pairs}, {mesh.num_measurements} measurements"
        facts.append(Fact("Measured", measured))
    return Document(
        title="Discovered mesh", lead=describe_shape(mesh), facts=tuple(facts), blocks=tuple(blocks)
    )


def describe_shape(mesh: DiscoveredMesh) -> str:
    """``'16 ranks: 2 · 8'``, or the numbers of groups where they differ in size."""
    if mesh.shape:
        return f"{mesh.num_ranks} ranks: {' · '.join(map(str, mesh.shape))}"
    levels = [
        f"{len(groups)} groups of {_range([len(group) for group in groups])}" for groups in mesh.groups[1:]
    ]
    return f"{mesh.num_ranks} ranks, irregular: {', '.join(levels) or 'one group'}"


def _range(sizes: list[int]) -> str:
    return str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"


def _axes(mesh: DiscoveredMesh) -> Table:
    return Table(
        columns=(
            Column("Axis"),
            Column("Size"),
            Column("Latency"),
            Column("Bandwidth"),
            Column("Spread", "share"),
            Column("Pairs"),
        ),
        rows=tuple(
            (
                axis.name,
                axis.size,
                *_figures(axis),
                None if math.isnan(axis.spread) else axis.spread,
                axis.num_pairs,
            )
            for axis in mesh.axes
        ),
    )


def _figures(axis: DiscoveredAxis) -> tuple[Cell | None, Cell | None]:
    """Latency and bandwidth with half their 95 % intervals; None where they are not known."""
    if axis.num_pairs == 0:
        return None, None
    latency, rate = axis.latency_seconds, axis.bytes_per_second
    latency_error = axis.latency_high_seconds / latency - 1
    rate_error = axis.high_bytes_per_second / rate - 1
    return (
        Cell(f"{format_seconds(latency)} ± {latency_error:.1%}", latency),
        Cell(f"{format_count(rate, 'B/s')} ± {rate_error:.1%}", rate),
    )


def _groups(mesh: DiscoveredMesh) -> Section:
    innermost = mesh.groups[-1]
    lines = [("·", _shortened(group)) for group in innermost[:_MOST_GROUPS]]
    if len(innermost) > _MOST_GROUPS:
        lines.append(("…", f"{len(innermost) - _MOST_GROUPS} groups more"))
    return Section(title="Innermost groups", blocks=(Items(tuple(lines)),))


def _shortened(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_RANKS]))
    return f"{shown}, … ({len(ranks)})" if len(ranks) > _MOST_RANKS else shown


def _matrices(mesh: DiscoveredMesh, samples: PairSamples) -> list[Section]:
    latency, bandwidth, labels = ordered_matrices(mesh, samples)
    return [
        Section(
            title="Latency between ranks",
            blocks=(matrix_figure("latency", latency, labels, "s"), *_shades(mesh, samples)),
        ),
        Section(
            title="Bandwidth between ranks",
            blocks=(matrix_figure("bandwidth", bandwidth, labels, "B/s"),),
            only="page",
        ),
    ]


def _shades(mesh: DiscoveredMesh, samples: PairSamples) -> list[Note]:
    """Latency in shades, dark for near; neighbours in the order share a cell of a large mesh."""
    values = np.log(_binned(_order(mesh), samples, _MOST_TERMINAL_CELLS)[0])
    low, high = np.nanmin(values), np.nanmax(values)
    steps = (values - low) / max(high - low, 1e-9) * (len(_SHADES) - 1)
    lines = [
        " ".join(" " if np.isnan(step) else _SHADES[round(float(step))] for step in row) for row in steps
    ]
    legend = f"latency between ranks: {_SHADES[0]} near, {_SHADES[-1]} far"
    return [Note(line, only="terminal") for line in (*lines, legend)]


def _order(mesh: DiscoveredMesh) -> np.ndarray:
    """Ranks in the order of the discovered hierarchy, then those outside it."""
    return np.array([*mesh.ranks, *sorted(set(range(mesh.num_ranks)) - set(mesh.ranks))])


def ordered_matrices(mesh: DiscoveredMesh, samples: PairSamples) -> tuple[Floats, Floats, list[str]]:
    """Seconds and bytes per second ``(m, m)``, NaN where nothing was measured, and the labels of the rows.

    Beyond ``MOST_CELLS`` ranks neighbours in the order share a cell, which holds their geometric mean.
    """
    return _binned(_order(mesh), samples, MOST_CELLS)


def _binned(order: np.ndarray, samples: PairSamples, most: int) -> tuple[Floats, Floats, list[str]]:
    width = -(-len(order) // most)
    size = -(-len(order) // width)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) // width
    known = samples.answered()
    rows, columns = place[known.pairs[:, 0]], place[known.pairs[:, 1]]
    cells = np.concatenate((rows * size + columns, columns * size + rows))
    counts = np.bincount(cells, minlength=size * size)
    found = []
    for axis in range(2):
        sums = np.bincount(cells, np.tile(known.costs[:, axis], 2), minlength=size * size)
        means = np.divide(sums, counts, out=np.full(size * size, np.nan), where=counts > 0)
        found.append(means.reshape(size, size))
    starts = range(0, len(order), width)
    labels = [str(order[at]) if width == 1 else f"{order[at]} …" for at in starts]
    return np.exp(found[0]), np.exp(-found[1]), labels


def matrix_figure(name: str, values: Floats, labels: list[str], unit: str) -> Figure:
    """A heat map in logarithmic colours; pointing at a cell says its value."""
    logarithms = np.log10(values)
    known = logarithms[np.isfinite(logarithms)]
    marks = np.linspace(known.min(), known.max(), 5) if len(known) else np.array([])
    last = len(_COLOURS) - 1
    heat = Heatmap(
        values=tuple(tuple(None if np.isnan(v) else float(v) for v in row) for row in logarithms),
        columns=tuple(labels),
        rows=tuple(labels),
        colours=tuple((at / last, colour) for at, colour in enumerate(_COLOURS)),
        hovers=tuple(
            tuple(
                f"rank {row} – rank {column}\n{_written(values[y, x], unit)}"
                for x, column in enumerate(labels)
            )
            for y, row in enumerate(labels)
        ),
        bar_title=name,
        bar_ticks=tuple((float(mark), _written(10.0**mark, unit)) for mark in marks),
    )
    return Figure(
        name=name,
        series=(heat,),
        height=640,
        x=Axis(title="rank, in discovered order", scale="category", has_grid=False),
        y=Axis(scale="category", is_reversed=True, has_grid=False),
    )


def _written(value: float, unit: str) -> str:
    if math.isnan(value):
        return "not measured"
    return format_seconds(value) if unit == "s" else format_count(value, unit)
