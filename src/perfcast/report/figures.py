"""Plots of a forecast. Values stay in SI; axes and labels say the unit.

Colours and text are chosen to read on white and on dark grounds. Text from a forecast is escaped,
since plotly reads a subset of HTML in labels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from perfcast.core.forecast.device import Forecast, OperationTime
from perfcast.units import format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BLUE, ORANGE, GREEN, PINK = "#3b82c4", "#e08a1e", "#2fa37c", "#c56a9e"
PURPLE, RED, YELLOW, GREY = "#8673c9", "#d0602c", "#c2a51f", "#8a94a3"
INK, LINE = "#6b7686", "rgba(128,140,156,0.28)"

#: Families of kinds that share a colour, here and in every plot.
FAMILIES = {
    "matmul": ("products", BLUE),
    "batched_matmul": ("products", BLUE),
    "grouped_matmul": ("products", BLUE),
    "convolution": ("convolution", PURPLE),
    "recurrent": ("recurrent", PURPLE),
    "attention": ("attention", ORANGE),
    "elementwise": ("elementwise", GREEN),
    "reduction": ("rows", PINK),
    "softmax": ("rows", PINK),
    "normalization": ("rows", PINK),
    "loss": ("rows", PINK),
    "embedding": ("look-up", YELLOW),
    "indexing": ("look-up", YELLOW),
    "optimizer": ("optimizer", RED),
}
OTHER_FAMILY = ("other", GREY)

PHASE_COLOURS = {"forward": BLUE, "backward": ORANGE, "optimizer": GREEN}

MAX_BARS = 16


def plot_kinds(forecast: Forecast) -> Figure:
    """Time by kind of operation, longest on top."""
    groups = sorted((g for g in forecast.by_kind if g.seconds), key=lambda g: -g.seconds)[:MAX_BARS]
    figure = _bars(
        [_words(group.label) for group in groups],
        [group.seconds for group in groups],
        sum(group.seconds for group in forecast.by_kind),
        [FAMILIES.get(group.label, OTHER_FAMILY)[1] for group in groups],
        [f"{group.count} issues<br>{format_count(group.flops, 'FLOP')}" for group in groups],
    )
    return finish(figure, height=90 + 26 * len(groups))


def plot_phases(forecast: Forecast) -> Figure:
    """Time of forward, backward and optimizer."""
    phases = forecast.seconds_by_phase
    figure = _bars(
        list(phases),
        list(phases.values()),
        sum(phases.values()),
        [PHASE_COLOURS.get(phase, GREY) for phase in phases],
        [""] * len(phases),
    )
    return finish(figure, height=90 + 32 * len(phases))


def plot_modules(forecast: Forecast) -> Figure:
    """Time by module, nested as the modules are; a click looks inside."""
    from plotly import graph_objects as go

    seconds = _module_seconds(forecast)
    total = seconds[""]
    paths = list(seconds)
    figure = go.Figure(
        go.Treemap(
            ids=[f"m.{path}" for path in paths],
            parents=["" if not path else f"m.{_parent(path)}" for path in paths],
            labels=[escape(_module_label(path)) if path else "model" for path in paths],
            values=[seconds[path] for path in paths],
            text=[
                f"{format_seconds(seconds[path])} · {100 * seconds[path] / total if total else 0:.1f} %"
                for path in paths
            ],
            customdata=[escape(path or "model") for path in paths],
            branchvalues="total",
            hovertemplate="%{customdata}<br>%{text}<extra></extra>",
            textinfo="label+text",
            maxdepth=4,
            tiling={"pad": 2},
            marker={"colorscale": [[0, "#dbe8f5"], [1, BLUE]], "cornerradius": 3, "line": {"width": 0}},
            pathbar={"thickness": 24},
            root={"color": "rgba(128,140,156,0.15)"},
        )
    )
    figure = finish(figure, height=440).update_layout(margin={"l": 4, "r": 4, "t": 30, "b": 4})
    return figure.update_layout(uniformtext={"minsize": 10, "mode": "hide"})


def plot_roofline(forecast: Forecast) -> Figure:
    """Achieved rate against arithmetic intensity, under the peaks of device and memory."""
    from plotly import graph_objects as go

    shown = [o for o in forecast.operations if o.flops and o.memory_traffic_bytes and o.seconds > 0]
    total = sum(operation.seconds for operation in forecast.operations)
    figure = go.Figure(_roof(forecast, shown))
    families: dict[tuple[str, str], list[OperationTime]] = {}
    for operation in sorted(shown, key=lambda o: -o.seconds):
        families.setdefault(FAMILIES.get(operation.kind, OTHER_FAMILY), []).append(operation)
    for (name, colour), members in families.items():
        figure.add_scatter(
            x=[o.flops / o.memory_traffic_bytes for o in members],
            y=[o.flops / o.seconds for o in members],
            name=name,
            mode="markers",
            marker={
                "color": colour,
                "opacity": 0.75,
                "size": [max(o.seconds / total, 0.001) for o in members],
                "sizemode": "area",
                "sizeref": 1 / 60**2,
                "sizemin": 3,
                "line": {"width": 1, "color": "rgba(255,255,255,0.6)"},
            },
            customdata=[_operation_hover(operation, total) for operation in members],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="arithmetic intensity (FLOP/byte)")
    figure.update_xaxes(type="log", dtick=1, exponentformat="power")
    figure.update_yaxes(title="achieved rate", type="log", dtick=1, tickformat="~s", ticksuffix="FLOP/s")
    return finish(figure, height=460, legend=True)


def _bars(
    labels: Sequence[str],
    seconds: Sequence[float],
    total: float,
    colours: Sequence[str],
    notes: Sequence[str],
) -> Figure:
    from plotly import graph_objects as go

    texts = [f"{format_seconds(s)} · {100 * s / total if total else 0:.1f} %" for s in seconds]
    figure = go.Figure(
        go.Bar(
            x=list(seconds),
            y=[escape(label) for label in labels],
            orientation="h",
            marker={"color": list(colours), "cornerradius": 3},
            text=texts,
            textposition="auto",
            constraintext="none",
            insidetextanchor="end",
            insidetextfont={"color": "#0d1117"},
            textangle=0,
            cliponaxis=False,
            customdata=list(notes),
            hovertemplate="<b>%{y}</b><br>%{text}<br>%{customdata}<extra></extra>",
        )
    )
    longest = max(seconds, default=0.0)
    figure.update_xaxes(range=[0, 1.4 * longest or 1], tickformat="~s", ticksuffix="s", nticks=5)
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def _roof(forecast: Forecast, shown: Sequence[OperationTime]) -> list[Any]:
    from plotly import graph_objects as go

    peak, bandwidth = forecast.peak_flops_per_second, forecast.memory_bytes_per_second
    ridge = peak / bandwidth
    intensities = [operation.flops / operation.memory_traffic_bytes for operation in shown]
    low, high = min([*intensities, ridge / 100]) / 2, max([*intensities, ridge * 10]) * 2
    line = go.Scatter(
        x=[low, ridge, high],
        y=[low * bandwidth, peak, peak],
        mode="lines",
        line={"color": INK, "width": 2},
        hoverinfo="skip",
        showlegend=False,
    )
    labels = go.Scatter(
        x=[ridge, high],
        y=[peak, 2 * peak],
        mode="text",
        text=[
            f"{format_count(bandwidth, 'B/s')} ╱   ",
            f"peak {format_count(peak, 'FLOP/s')}",
        ],
        textposition=["middle left", "middle left"],
        hoverinfo="skip",
        showlegend=False,
    )
    return [line, labels]


def _operation_hover(operation: OperationTime, total: float) -> str:
    lines = (
        f"<b>{escape(operation.name)}</b> ({escape(operation.phase)})",
        escape(operation.shapes),
        f"{format_seconds(operation.seconds)} · {100 * operation.seconds / total:.1f} % of the step",
        format_count(operation.flops / operation.seconds, "FLOP/s"),
        f"bound by {escape(operation.bound_by)}",
    )
    return "<br>".join(lines)


def _module_seconds(forecast: Forecast) -> dict[str, float]:
    """Time of each module with all that is inside, '' for the model; parents first, layers folded."""
    names = _fold_layers({group.label for group in forecast.by_module})
    totals: dict[str, float] = {"": 0.0}
    for group in forecast.by_module:
        path = names[group.label]
        while path:
            totals[path] = totals.get(path, 0.0) + group.seconds
            path = _parent(path)
        totals[""] += group.seconds
    return dict(sorted(totals.items()))


def _fold_layers(labels: Collection[str]) -> dict[str, str]:
    """A name for each module in which neighbours built alike share one: ``h.3.mlp`` is ``h.0–35.mlp``.

    Alike are numbered neighbours that hold the same, more than nothing, inside. Outer lists fold
    first, then the lists within.
    """
    names = {label: label for label in labels}
    depth = max((label.count(".") + 1 for label in labels), default=0)
    for position in range(1, depth):
        insides: dict[tuple[str, int], set[str]] = {}
        for name in names.values():
            parts = name.split(".")
            if len(parts) > position and parts[position].isdigit():
                key = (".".join(parts[:position]), int(parts[position]))
                insides.setdefault(key, set()).add(".".join(parts[position + 1 :]))
        runs = _runs_of_equals(insides)
        for label, name in names.items():
            parts = name.split(".")
            if len(parts) > position and parts[position].isdigit():
                parts[position] = runs[".".join(parts[:position]), int(parts[position])]
                names[label] = ".".join(parts)
    return names


def _runs_of_equals(insides: dict[tuple[str, int], set[str]]) -> dict[tuple[str, int], str]:
    """For each numbered module the range of neighbours that hold the same, such as ``0–35``."""
    runs: dict[tuple[str, int], str] = {}
    members: list[tuple[str, int]] = []
    for key in sorted(insides):
        previous = members[-1] if members else None
        alike = (
            previous == (key[0], key[1] - 1) and insides[previous] == insides[key] and insides[key] != {""}
        )
        members = [*members, key] if alike else [key]
        text = str(key[1]) if len(members) == 1 else f"{members[0][1]}–{key[1]}"
        runs.update(dict.fromkeys(members, text))
    return runs


def _parent(path: str) -> str:
    """The module around; the number of a repeated layer stays with its list (``h.0`` is one step)."""
    head, _, last = path.rpartition(".")
    return head.rpartition(".")[0] if last[:1].isdigit() and head else head


def _module_label(path: str) -> str:
    parent = _parent(path)
    return path[len(parent) + 1 :] if parent else path


def finish(figure: Figure, height: int, legend: bool = False) -> Figure:
    """The look that all figures share."""
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        margin={"l": 8, "r": 12, "t": 12, "b": 8},
        showlegend=legend,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        barcornerradius=3,
    )
    figure.update_xaxes(gridcolor=LINE, linecolor=LINE, zerolinecolor=LINE, automargin=True)
    return figure.update_yaxes(gridcolor=LINE, linecolor=LINE, zerolinecolor=LINE, automargin=True)


def _words(name: str) -> str:
    return name.replace("_", " ")
