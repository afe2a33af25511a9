"""Prices of collectives: table, JSON, plot of bandwidth over size; the error tables of their suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.cluster import Cluster
from perfcast.core.mesh import DeviceMesh
from perfcast.cost.collective.sweep import CollectiveSweep
from perfcast.report.figures import BLUE, GREEN, INK, LINE, ORANGE, PURPLE, RED
from perfcast.report.html import Section, figure_html, page
from perfcast.report.text import print_validation
from perfcast.simulate.network.mesh import FabricTime
from perfcast.units import GIGA, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: (name, message bytes, bus bytes per second) of measurements to draw over a forecast.
Points = tuple[str, Sequence[float], Sequence[float]]
Entry = Mapping[str, Any]


#: Symbol and colour of each source of measured points.
_MARKS = (
    ("x-thin-open", ORANGE), ("cross-thin-open", GREEN), ("diamond-open", PURPLE), ("triangle-up-open", RED),
)  # fmt: skip


def print_sweep(sweep: CollectiveSweep, mesh: DeviceMesh, console: Console) -> None:
    """What is priced, and one line per size."""
    console.print(describe_sweep(sweep, mesh), markup=False, soft_wrap=True)
    table = _table("")
    for heading in ("Message", "Time", "90 % interval", "Bus bandwidth", "Algorithm", "Protocol"):
        table.add_column(
            heading, justify="left" if heading in ("Algorithm", "Protocol") else "right", no_wrap=True
        )
    times, rates = sweep.times, sweep.bus_bytes_per_second
    for index, size in enumerate(sweep.message_bytes.tolist()):
        table.add_row(
            format_bytes(size),
            format_seconds(float(times.seconds[index])),
            f"{format_seconds(float(times.low[index]))} – {format_seconds(float(times.high[index]))}",
            format_count(float(rates[index]), "B/s"),
            times.algorithm(index).replace("_", " "),
            times.protocol(index),
        )
    console.print(table)


def describe_sweep(sweep: CollectiveSweep, mesh: DeviceMesh) -> str:
    """'all_reduce over tp: 8 devices (8 in node), 8 groups at once, on DGX H100, 64 devices'."""
    levels = zip(mesh.cluster.levels, sweep.span, strict=True)
    lying = ", ".join(f"{members} in {level.name}" for level, members in levels if members > 1) or "alone"
    return (
        f"{sweep.collective} over {', '.join(sweep.axes)}: {sweep.group_size} devices ({lying}), "
        f"{sweep.concurrent_groups} group{'s' * (sweep.concurrent_groups > 1)} at once, on "
        f"{mesh.cluster.title}, {mesh.cluster.num_devices} devices"
    )


def print_simulated(fabric: str, times: Sequence[FabricTime], console: Console) -> None:
    """One line per size, with the link that was used most."""
    table = _table(f"Simulated flow by flow on {fabric}")
    for heading in ("Message", "Time", "Busiest link", "Used"):
        table.add_column(heading, justify="left" if heading == "Busiest link" else "right", no_wrap=True)
    for time in times:
        name, share = time.busiest[0] if time.busiest else ("", 0.0)
        table.add_row(
            format_bytes(time.message_bytes),
            ("" if time.is_exact else "≈ ") + format_seconds(time.seconds),
            name,
            f"{100 * share:.0f} %",
        )
    console.print(table)


def sweep_to_dict(
    sweep: CollectiveSweep,
    mesh: DeviceMesh,
    measured: Sequence[Points] = (),
    simulated: Sequence[FabricTime] = (),
) -> dict[str, Any]:
    """Everything, in SI."""
    times, rates = sweep.times, sweep.bus_bytes_per_second
    return {
        "cluster": cluster_to_dict(mesh.cluster),
        "mesh": dict(zip(mesh.names, mesh.sizes, strict=True)),
        "collective": sweep.collective,
        "axes": list(sweep.axes),
        "group_size": sweep.group_size,
        "span": list(sweep.span),
        "concurrent_groups": sweep.concurrent_groups,
        "sizes": [
            {
                "message_bytes": size,
                "seconds": float(times.seconds[index]),
                "seconds_low": float(times.low[index]),
                "seconds_high": float(times.high[index]),
                "latency_seconds": float(times.latency_seconds[index]),
                "bus_bytes_per_second": float(rates[index]),
                "algorithm": times.algorithm(index) or None,
                "protocol": times.protocol(index) or None,
            }
            for index, size in enumerate(sweep.message_bytes.tolist())
        ],
        "simulated": [
            {
                "message_bytes": time.message_bytes,
                "seconds": time.seconds,
                "is_exact": time.is_exact,
                "busiest_links": [{"link": link, "utilisation": used} for link, used in time.busiest],
            }
            for time in simulated
        ],
        "measured": [
            {"name": name, "message_bytes": list(sizes), "bus_bytes_per_second": list(values)}
            for name, sizes, values in measured
        ],
    }


def cluster_to_dict(cluster: Cluster) -> dict[str, Any]:
    """A cluster in SI."""
    return {
        "name": cluster.name,
        "title": cluster.title,
        "device": cluster.device,
        "num_devices": cluster.num_devices,
        "levels": [
            {
                "name": level.name,
                "size": level.size,
                "kind": level.link.kind,
                "latency_seconds": level.link.latency_seconds,
                "bytes_per_second": level.link.bytes_per_second,
                "is_duplex": level.link.is_duplex,
                "is_switched": level.link.is_switched,
                "oversubscription": level.link.oversubscription,
                "reduces_in_network": level.link.reduces_in_network,
            }
            for level in cluster.levels
        ],
        "note": cluster.note,
    }


def plot_sweep(sweep: CollectiveSweep, measured: Sequence[Points]) -> Figure:
    """Bus bandwidth over message size, both logarithmic: the forecast, its interval, measured points."""
    from plotly import graph_objects

    sizes, factor, times = sweep.message_bytes, sweep.bus_factor, sweep.times
    figure = graph_objects.Figure()
    if sweep.group_size > 1:
        for values, fill in ((times.high, None), (times.low, "tonexty")):
            figure.add_scatter(x=sizes, y=sizes * factor / values / GIGA, mode="lines", line={"width": 0},
                               fill=fill, fillcolor=LINE, showlegend=False, hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=sizes, y=sweep.bus_bytes_per_second / GIGA, mode="lines+markers", name="forecast",
                       line={"color": BLUE})  # fmt: skip
    marks = zip(cycle(_MARKS), measured, strict=False)
    for (symbol, color), (name, places, rates) in marks:
        figure.add_scatter(x=places, y=[rate / GIGA for rate in rates], mode="markers", name=escape(name),
                           marker={"symbol": symbol, "color": color})  # fmt: skip
    figure.update_xaxes(type="log", title="message, bytes")
    figure.update_yaxes(type="log", title="bus bandwidth, GB/s")
    figure.update_layout(height=420, margin={"l": 60, "r": 20, "t": 30, "b": 50}, template="none",
                         font={"color": INK}, paper_bgcolor="rgba(0,0,0,0)",
                         plot_bgcolor="rgba(0,0,0,0)")  # fmt: skip
    return figure


def render_sweep_html(sweep: CollectiveSweep, mesh: DeviceMesh, measured: Sequence[Points]) -> str:
    """One self-contained page with the plot."""
    lead = f'<p class="lead">{escape(describe_sweep(sweep, mesh))}</p>'
    plot = figure_html(plot_sweep(sweep, measured), "bandwidth")
    return page(
        f"{sweep.collective} on {mesh.cluster.title}", [Section("", lead), Section("Bandwidth", plot)]
    )


def print_clusters(rows: Sequence[Entry], console: Console) -> None:
    """A line per cluster: levels from the devices outwards."""
    table = _table("Clusters")
    for heading in ("Name", "Device", "Levels from the devices outwards: size x link, GB/s per device"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        levels = [
            f"{level['size'] or 'N'} x {level['kind']} {level['bytes_per_second'] / GIGA:.4g}"
            for level in row["levels"]
        ]
        table.add_row(row["name"], row["device"], ", ".join(levels))
    console.print(table)
    console.print("NAME:N is a cluster of N devices.")


def print_cluster(row: Entry, console: Console) -> None:
    """One cluster with the source of every figure."""
    console.print(Text(row["title"], style="bold"))
    for key in ("name", "device", "note"):
        if row[key]:
            console.print(f"{key}: {row[key]}", markup=False, soft_wrap=True)
    table = _table("Figures")
    for heading in ("Figure", "Value", "Source"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "Value" else "left")
    for figure in row["figures"]:
        table.add_row(figure["name"], f"{figure['value']:g} {figure['unit']}", figure["source"])
    console.print(table)


def print_collective_suite(summary: Sequence[Entry], console: Console) -> None:
    """Errors over all rows and by range of size, then by system and collective."""
    shown = [entry for entry in summary if entry["group"] in ("all", "sizes", "message", "collection")]
    print_validation([_line(entry) for entry in shown if entry["n"] or entry["group"] == "all"], console)
    for group, title in (
        ("skipped", "Rows without a forecast"),
        ("system, operation", "By system and collective"),
        ("group, operation", "By group (members on each level) and collective"),
    ):
        entries = [
            entry for entry in summary if entry["group"] == group and (entry["n"] or group == "skipped")
        ]
        if entries:
            console.print(_error_table(title, entries))
    published = [entry for entry in summary if "published_mean_absolute_relative_error" in entry]
    if published:
        console.print(_published_table(published))


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "predictor": entry["predictor"],
        "group": "all" if entry["group"] == "all" else str(entry["value"]),
        "n": entry["n"],
        "skipped": entry["skipped"],
        "mean": entry["mean_absolute_relative_error"],
        "median": entry["median_absolute_relative_error"],
        "p90": entry["p90_absolute_relative_error"],
        "signed_mean": entry["mean_relative_error"],
        "coverage": entry["coverage"],
    }


def _error_table(title: str, entries: Sequence[Entry]) -> Table:
    """A line per value, predictors side by side: median, 90th percentile and mean in percent, rows."""
    names = list(dict.fromkeys(entry["predictor"] for entry in entries))
    found = {(entry["value"], entry["predictor"]): entry for entry in entries}
    table = _table(f"{title}: error in percent, median / 90th percentile / mean (rows)")
    table.add_column("", overflow="fold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for value in dict.fromkeys(entry["value"] for entry in entries):
        table.add_row(value, *(_cell(found.get((value, name))) for name in names))
    return table


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "–"
    if not entry["n"]:
        return f"{entry['skipped']} skipped" if entry["skipped"] else "–"
    keys = ("median_absolute_relative_error", "p90_absolute_relative_error", "mean_absolute_relative_error")
    return f"{' / '.join(f'{100 * entry[key]:.1f}' for key in keys)} ({entry['n']})"


def _published_table(entries: Sequence[Entry]) -> Table:
    table = _table("All-reduce on HGX H100: mean error in percent, and what ASTRA-sim states of itself")
    for heading in ("GPUs", "Predictor", "Rows", "Ours", "ASTRA-sim"):
        table.add_column(heading, justify="left" if heading == "Predictor" else "right")
    for entry in entries:
        ours = f"{100 * entry['mean_absolute_relative_error']:.1f}"
        theirs = f"{100 * entry['published_mean_absolute_relative_error']:.1f}"
        table.add_row(entry["value"], entry["predictor"], str(entry["n"]), ours, theirs)
    return table


def _table(title: str) -> Table:
    return Table(title=Text(title) if title else None, box=box.SIMPLE_HEAD, title_justify="left",
                 title_style="bold", padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)  # fmt: skip
