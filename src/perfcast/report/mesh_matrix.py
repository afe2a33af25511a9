"""The matrix of latency and bandwidth between pairs, with ranks in the order of the discovered hierarchy."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.measure.mesh_discovery.matrix import PairSamples
from perfcast.report.html import Section, figure_html, page
from perfcast.report.mesh_text import describe_axis, describe_shape
from perfcast.units import GIGA, MICRO

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import Console

MOST_CELLS = 512
_MOST_TERMINAL_CELLS = 32
_SHADES = "█▓▒░·"


def ordered_matrices(mesh: DiscoveredMesh, samples: PairSamples) -> tuple[Floats, Floats, list[str]]:
    """Seconds and bytes per second ``(m, m)``, NaN where nothing was measured, and the labels of the rows.

    Beyond ``MOST_CELLS`` ranks neighbours in the order share a cell, which holds their geometric mean.
    """
    order = np.array([*mesh.ranks, *sorted(set(range(mesh.num_ranks)) - set(mesh.ranks))])
    return _binned(order, samples, MOST_CELLS)


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


def matrix_figure(values: Floats, labels: list[str], unit: str, title: str) -> Figure:
    """A heat map in logarithmic colours; the hover says the value in its unit."""
    from plotly import graph_objects

    hover = "rank %{y} – rank %{x}<br>%{customdata:.4g} " + unit + "<extra></extra>"
    figure = graph_objects.Figure(
        graph_objects.Heatmap(
            z=np.log10(values), x=labels, y=labels, customdata=values, hovertemplate=hover,
            colorscale="Viridis", colorbar={"title": f"log₁₀ {unit}"}, hoverongaps=False,
        )
    )  # fmt: skip
    figure.update_xaxes(type="category", title="rank, in discovered order", showgrid=False)
    figure.update_yaxes(type="category", autorange="reversed", scaleanchor="x", showgrid=False)
    return figure.update_layout(
        title=title, height=640, template="none", margin={"l": 60, "r": 20, "t": 50, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#6b7686"},
    )  # fmt: skip


def render_mesh_html(mesh: DiscoveredMesh, samples: PairSamples | None) -> str:
    """Shape, axes, faults and doubts, and both matrices where pairs were measured; one page."""
    rows = "".join(
        f"<tr><td>{escape(axis.name)}</td><td class='number'>{axis.size}</td>"
        f"<td class='number'>{describe_axis(axis)[0]}</td><td class='number'>{describe_axis(axis)[1]}</td>"
        f"<td class='number'>{axis.num_pairs}</td></tr>"
        for axis in mesh.axes
    )
    heads = "".join(f"<th>{head}</th>" for head in ("Axis", "Size", "Latency", "Bandwidth", "Pairs"))
    lead = f"{describe_shape(mesh)}; confidence {mesh.confidence:.2f}"
    sections = [
        Section("", f'<p class="lead">{escape(lead)}</p><table><tr>{heads}</tr>{rows}</table>'),
        *_list("Misfits", [misfit.note for misfit in mesh.misfits]),
        *_list("Doubts", list(mesh.doubts)),
    ]
    if samples is not None:
        latency, bandwidth, labels = ordered_matrices(mesh, samples)
        for name, values, unit in (
            ("Latency", latency / MICRO, "µs"),
            ("Bandwidth", bandwidth / GIGA, "GB/s"),
        ):
            figure = matrix_figure(values, labels, unit, f"{name} between ranks")
            sections.append(Section(name, figure_html(figure, name.lower())))
    return page("Discovered mesh", sections)


def print_matrix(mesh: DiscoveredMesh, samples: PairSamples, console: Console) -> None:
    """Latency in shades, dark for near; neighbours in the order share a cell of a large mesh."""
    order = np.array([*mesh.ranks, *sorted(set(range(mesh.num_ranks)) - set(mesh.ranks))])
    values = np.log(_binned(order, samples, _MOST_TERMINAL_CELLS)[0])
    low, high = np.nanmin(values), np.nanmax(values)
    steps = (values - low) / max(high - low, 1e-9) * (len(_SHADES) - 1)
    for row in steps:
        cells = (" " if np.isnan(step) else _SHADES[round(float(step))] for step in row)
        console.print(" ".join(cells), markup=False)
    console.print(f"latency between ranks: {_SHADES[0]} near, {_SHADES[-1]} far", markup=False)


def _list(heading: str, notes: list[str]) -> list[Section]:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return [Section(heading, f"<ul>{items}</ul>")] if notes else []
