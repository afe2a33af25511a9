"""How well the fitted lines of a calibration fit, drawn: measured points and the line of every family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from perfcast.cost.families import PRODUCT_FAMILIES
from perfcast.cost.linear import Measurement, line_seconds
from perfcast.cost.profile import DeviceProfile, Line
from perfcast.report.html import Section, figure_html, page
from perfcast.units import MICRO, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import Console


def calibration_figures(
    profile: DeviceProfile, measurements: Sequence[Measurement]
) -> list[tuple[str, Figure]]:
    """(caption, figure) per fitted line, in the profile's order."""
    points: defaultdict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        points[measurement.features.family, measurement.features.dtype.label].append(measurement)
    return [
        (describe_line(line), line_figure(line, points[line.family, line.dtype])) for line in profile.lines
    ]


def line_figure(line: Line, measurements: Sequence[Measurement]) -> Figure:
    """Time over work, both logarithmic: points measured, the fitted values joined, the names on hover.

    Work is flops for products and bytes for everything else. The fitted values of products lie on no one
    curve, since the same flops in another shape take another time.
    """
    from plotly import graph_objects

    is_product = line.family in PRODUCT_FAMILIES
    ordered = sorted(measurements, key=lambda m: _work(m, is_product))
    work = np.array([_work(m, is_product) for m in ordered])
    measured = np.array([m.seconds for m in ordered]) / MICRO
    fitted = np.array([line_seconds(line, m.features)[0] for m in ordered]) / MICRO
    figure = graph_objects.Figure()
    figure.add_scatter(x=work, y=measured, mode="markers", name="measured", text=[m.key for m in ordered],
                       hovertemplate="%{text}<br>%{y:.4g} µs<extra></extra>")  # fmt: skip
    mode = "markers" if is_product else "lines"
    figure.add_scatter(x=work, y=fitted, mode=mode, name="fitted", marker={"symbol": "x-thin-open"})
    figure.update_xaxes(type="log", title="flops" if is_product else "bytes moved")
    figure.update_yaxes(type="log", title="µs")
    figure.update_layout(
        title=f"{line.family} ({line.dtype}): R² {line.r_squared:.3f}, MAPE {line.mape:.1%} held out",
        height=360, margin={"l": 60, "r": 20, "t": 50, "b": 50}, template="none",
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
    )  # fmt: skip
    return figure


def describe_line(line: Line) -> str:
    """The parameters in words."""
    parts = [f"{line.count} measurements", f"latency {format_seconds(line.latency_seconds)}"]
    if line.most_flops > 0 and np.isfinite(line.flops_per_second):
        parts.append(format_count(line.flops_per_second, "FLOP/s"))
    parts.append(f"{format_count(line.bytes_per_second, 'B/s')} up to {format_bytes(line.cache_bytes)}")
    parts.append(f"{format_count(line.bytes_per_second_beyond, 'B/s')} beyond")
    return ", ".join(parts)


def _work(measurement: Measurement, is_product: bool) -> float:
    features = measurement.features
    return float(max(features.executed_flops if is_product else features.memory_traffic_bytes, 1))


def print_calibration(profile: DeviceProfile, console: Console) -> None:
    """The profile of a machine: what it is, and how well each line fits."""
    from rich.table import Table

    peaks = ", ".join(
        f"{label} {format_count(rate, 'FLOP/s')}" for label, rate in profile.peak_flops_per_second.items()
    )
    console.print(f"{profile.processor}, {profile.num_threads} threads", markup=False)
    console.print(
        f"peak {peaks}; copies beyond the cache {format_count(profile.dram_bytes_per_second, 'B/s')}"
    )
    table = Table("Family", "Type", box=None, pad_edge=False)
    for heading in ("Points", "R²", "Error", "Latency"):
        table.add_column(heading, justify="right")
    for line in profile.lines:
        error = f"{line.mape:.1%}"
        table.add_row(
            line.family,
            line.dtype,
            str(line.count),
            f"{line.r_squared:.3f}",
            error,
            format_seconds(line.latency_seconds),
        )
    console.print(table)
    console.print("R² and mean absolute error on measurements held out from the fit.")


def render_calibration_html(profile: DeviceProfile, measurements: Sequence[Measurement]) -> str:
    """Every family's points and line as one page."""
    figures = calibration_figures(profile, measurements)
    sections = [
        Section(
            f"{line.family} ({line.dtype})",
            f'<p class="note">{escape(caption)}</p>{figure_html(figure, f"line{index}")}',
        )
        for index, (line, (caption, figure)) in enumerate(zip(profile.lines, figures, strict=True))
    ]
    lead = f"{profile.num_threads} threads, PyTorch {profile.torch_version}, {profile.measured_at}"
    return page(
        f"Calibration of {profile.processor}", [Section("", f'<p class="lead">{escape(lead)}</p>'), *sections]
    )
