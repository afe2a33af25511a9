"""Prices of a collective over message sizes, beside simulated and measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from perfcast.core.machine.mesh import DeviceMesh
from perfcast.cost.collective.sweep import CollectiveSweep
from perfcast.report import palette
from perfcast.report.document import Block, Cell, Column, Document, Section, Table, words
from perfcast.report.documents.mesh.drawing import mesh_section
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.simulate.network.mesh import FabricTime
from perfcast.units import format_bytes, format_count, format_seconds

#: (name, message bytes, bus bytes per second) of measurements to draw over a forecast.
Points = tuple[str, Sequence[float], Sequence[float]]

#: Symbol and colour of each source of measured points.
_MARKS = (
    ("x-thin-open", palette.ORANGE),
    ("cross-thin-open", palette.GREEN),
    ("diamond-open", palette.PURPLE),
    ("triangle-up-open", palette.RED),
)


def document_of(
    sweep: CollectiveSweep,
    mesh: DeviceMesh,
    measured: Sequence[Points] = (),
    simulated: Sequence[FabricTime] = (),
    fabric: str = "",
    is_decimal: bool = False,
) -> Document:
    """One line per size.

    Args:
        is_decimal: Whether sizes are written in MB, not in MiB.
        measured: Points beside the forecast.
        simulated: The same flow by flow on a fabric.
    """
    blocks: list[Block] = [Section(title="Bandwidth", blocks=(sweep_figure(sweep, measured),), only="page")]
    blocks.append(_sizes(sweep, is_decimal=is_decimal))
    blocks += _beside(sweep, measured, is_decimal=is_decimal)
    blocks.append(mesh_section(mesh, sweep.axes))
    if fabric:
        title = f"Simulated flow by flow on {fabric}"
        blocks.append(Section(title=title, blocks=(_simulated(simulated, is_decimal=is_decimal),)))
    return Document(
        title=f"{sweep.collective} on {mesh.cluster.title}",
        lead=_describe(sweep, mesh),
        blocks=tuple(blocks),
    )


def _describe(sweep: CollectiveSweep, mesh: DeviceMesh) -> str:
    """'all_reduce over tp: 8 devices (8 in node), 8 groups at once, on DGX H100, 64 devices'."""
    levels = zip(mesh.cluster.levels, sweep.span, strict=True)
    spread = ", ".join(f"{members} in {level.name}" for level, members in levels if members > 1) or "alone"
    return (
        f"{sweep.collective} over {', '.join(sweep.axes)}: {sweep.group_size} devices ({spread}), "
        f"{sweep.concurrent_groups} group{'s' * (sweep.concurrent_groups > 1)} at once, on "
        f"{mesh.cluster.title}, {mesh.cluster.num_devices} devices"
    )


def _size(num_bytes: float, *, is_decimal: bool) -> Cell:
    return Cell(format_count(num_bytes, "B") if is_decimal else format_bytes(num_bytes), num_bytes)


def _sizes(sweep: CollectiveSweep, *, is_decimal: bool) -> Table:
    times, rates = sweep.times, sweep.bus_bytes_per_second
    rows = []
    for index, size in enumerate(sweep.message_bytes.tolist()):
        low, high = float(times.low[index]), float(times.high[index])
        rows.append(
            (
                _size(size, is_decimal=is_decimal),
                float(times.seconds[index]),
                Cell(f"{format_seconds(low)} – {format_seconds(high)}", low),
                float(rates[index]),
                words(times.algorithm(index)),
                times.protocol(index),
            )
        )
    return Table(
        columns=(
            Column("Message", "B"),
            Column("Time", "s"),
            Column("90 % interval"),
            Column("Bus bandwidth", "B/s"),
            Column("Algorithm", folds=False),
            Column("Protocol", folds=False),
        ),
        rows=tuple(rows),
    )


def _beside(sweep: CollectiveSweep, measured: Sequence[Points], *, is_decimal: bool) -> list[Block]:
    """Seconds of what was measured of just these sizes, beside the forecast; other points are drawn alone."""
    known = [points for points in measured if list(points[1]) == sweep.message_bytes.tolist()]
    tables: list[Block] = []
    for name, _, rates in known:
        rows = [
            (
                _size(size, is_decimal=is_decimal),
                forecast,
                size * sweep.bus_factor / rate if rate else None,
                forecast * rate / (size * sweep.bus_factor) if rate else None,
            )
            for size, forecast, rate in zip(
                sweep.message_bytes.tolist(), sweep.times.seconds.tolist(), rates, strict=True
            )
        ]
        columns = (
            Column("Message", "B"),
            Column("Forecast", "s"),
            Column("Measured", "s"),
            Column("Forecast / measured", "×"),
        )
        tables.append(Table(title=f"Beside {name}", columns=columns, rows=tuple(rows)))
    return tables


def _simulated(times: Sequence[FabricTime], *, is_decimal: bool) -> Table:
    """One line per size, with the link that was used most."""
    rows = []
    for time in times:
        name, share = time.busiest[0] if time.busiest else ("", 0.0)
        seconds = Cell(("" if time.is_exact else "≈ ") + format_seconds(time.seconds), time.seconds)
        rows.append((_size(time.message_bytes, is_decimal=is_decimal), seconds, name, share))
    return Table(
        columns=(
            Column("Message", "B"),
            Column("Time"),
            Column("Busiest link", folds=False),
            Column("Used", "share"),
        ),
        rows=tuple(rows),
    )


def sweep_figure(sweep: CollectiveSweep, measured: Sequence[Points]) -> Figure:
    """Bus bandwidth over message size, both logarithmic: the forecast, its interval, measured points."""
    sizes, factor, times = sweep.message_bytes, sweep.bus_factor, sweep.times
    x = tuple(sizes.tolist())
    series = []
    if sweep.group_size > 1:
        fastest, slowest = (tuple((sizes * factor / end).tolist()) for end in (times.low, times.high))
        series = [
            Curve(x=x, y=slowest, colour=palette.LINE, width=0),
            Curve(
                x=x, y=fastest, colour=palette.LINE, width=0, fills="to_previous", fill_colour=palette.LINE
            ),
        ]
    rates = tuple(sweep.bus_bytes_per_second.tolist())
    series.append(
        Curve(
            name="forecast",
            mode="lines+markers",
            colour=palette.BLUE,
            x=x,
            y=rates,
            hovers=tuple(_hover(size, rate) for size, rate in zip(x, rates, strict=True)),
        )
    )
    for (symbol, colour), (name, places, values) in zip(cycle(_MARKS), measured, strict=False):
        series.append(
            Curve(
                name=name,
                mode="markers",
                colour=colour,
                symbols=symbol,
                x=tuple(places),
                y=tuple(values),
                hovers=tuple(_hover(size, rate) for size, rate in zip(places, values, strict=True)),
            )
        )
    return Figure(
        name="bandwidth",
        series=tuple(series),
        height=420,
        legend="above",
        x=Axis(title="message", scale="log", unit="B"),
        y=Axis(title="bus bandwidth", scale="log", unit="B/s"),
    )


def _hover(num_bytes: float, rate: float) -> str:
    return f"{format_bytes(num_bytes)}, {format_count(rate, 'B/s')}"
