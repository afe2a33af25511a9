"""Figures as data: series, axes and marks, in SI units; ``svg`` draws them, ``plots`` makes them plotly's.

Text is plain: a line break is one, nothing is markup. Colours are those of ``palette``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Scale = Literal["linear", "log", "category"]
Coordinate = float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis.

    Attributes:
        unit: 's' and other units with a decimal prefix are written beside the ticks; 'B' on a linear axis is
            drawn in MiB or GiB and 'duration' in days, which the title then says; '' is none, 'share' a
            fraction that is drawn in percent.
        low, high: Ends, None for those of the values.
        ticks: Places and texts, () for those that fit.
        from_zero: Whether 0 is on it.
        is_reversed: Whether the first value stands on top.
        is_visible: Whether it has a line, ticks and a grid.
    """

    title: str = ""
    unit: str = ""
    scale: Scale = "linear"
    low: float | None = None
    high: float | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    from_zero: bool = False
    is_reversed: bool = False
    has_grid: bool = True
    is_visible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar for each label; of several series each goes on where the one before ends.

    Attributes:
        colours: One for all, or one for each.
        texts: Beside or inside the bars.
        hovers: What pointing at one says.
        base: Where the bars begin; () for 0 or the end of the series before.
    """

    name: str = ""
    labels: tuple[Coordinate, ...]
    values: tuple[float | None, ...]
    colours: str | tuple[str, ...]
    texts: tuple[str, ...] = ()
    hovers: tuple[str, ...] = ()
    base: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points, a line through them, or the area below it.

    Attributes:
        mode: What is drawn.
        hovers: What pointing at one says; () says nothing, unless ``hovers_values``.
        sizes: Of the markers in pixels, one for all or one for each.
        areas: Of the markers, as fractions of the largest.
        errors: Low and high ends of a horizontal interval around each point.
        fills: What is filled: down to zero, stacked on the area before, or up to the curve before.
        is_step: Whether values stay until the next.
        group: Series of one group share an entry of the legend.
    """

    name: str = ""
    x: tuple[Coordinate, ...]
    y: tuple[Coordinate, ...]
    colour: str | tuple[str, ...]
    mode: Literal["lines", "markers", "lines+markers", "text"] = "lines"
    texts: tuple[str, ...] = ()
    text_place: str = "top center"
    hovers: tuple[str, ...] = ()
    hovers_values: bool = False
    width: float = 2.0
    dash: Literal["solid", "dash", "dot"] = "solid"
    symbols: str | tuple[str, ...] = "circle"
    sizes: float | tuple[float, ...] = 8.0
    areas: tuple[float, ...] = ()
    errors: tuple[tuple[float, float], ...] = ()
    fills: Literal["", "to_zero", "stacked", "to_previous"] = ""
    fill_colour: str = ""
    is_step: bool = False
    opacity: float = 1.0
    group: str = ""
    in_legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap:
    """A matrix of colours.

    Attributes:
        values: By row and column; None is left empty.
        columns, rows: Labels; or () for columns of equal ``width`` from 0 on the x axis, and rows 0, 1, ….
        colours: From the lowest to the highest, each with its place from 0 to 1.
        hovers: By row and column.
        bar_ticks: Values that the colours stand for, with their texts; () draws no bar of colours.
    """

    values: tuple[tuple[float | None, ...], ...]
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    width: float = 1.0
    colours: tuple[tuple[float, str], ...]
    low: float | None = None
    high: float | None = None
    hovers: tuple[tuple[str, ...], ...] = ()
    gap: int = 0
    bar_title: str = ""
    bar_ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Treemap:
    """Nested rectangles; a click looks inside.

    Attributes:
        ids, parents: Of each; '' is the parent of the whole.
        values: Those of the insides included.
        colours: Of each; '' is a shade for its depth, () for all.
    """

    ids: tuple[str, ...]
    parents: tuple[str, ...]
    labels: tuple[str, ...]
    values: tuple[float, ...]
    texts: tuple[str, ...]
    hovers: tuple[str, ...]
    colours: tuple[str, ...] = ()
    depth: int = 4


@dataclass(frozen=True, slots=True)
class ParallelAxis:
    """One of several axes side by side.

    Attributes:
        ticks: Heights from 0 to 1, and what is written there.
    """

    title: str
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strands:
    """Lines of one look across all axes.

    Attributes:
        lines: Of each its height on every axis, from 0 to 1.
    """

    lines: tuple[tuple[float, ...], ...]
    colour: str
    width: float = 1.0
    opacity: float = 0.6
    hover: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Parallel coordinates: axes side by side, a line across all of them for each thing.

    Attributes:
        strands: In the order of drawing.
    """

    axes: tuple[ParallelAxis, ...]
    strands: tuple[Strands, ...]


Series = Bars | Curve | Heatmap | Treemap | Parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A line across the figure, at ``x`` or at ``y``.

    Attributes:
        place: Where its label stands: beside the plot, or along the line's end.
        is_alarm: Whether it is a limit.
    """

    x: float | None = None
    y: float | None = None
    label: str = ""
    place: Literal["beside", "end", "top"] = "end"
    is_alarm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text at a point.

    Attributes:
        y: None is the upper edge of the plot.
        anchor: The side of the text that is at the point.
        arrow: Where the text stands from the point, in pixels right and down; None puts it at the point.
        arrow_y: Where it stands on the y axis instead.
        is_boxed: Whether it has a ground of its own.
    """

    x: float
    y: float | None = None
    text: str
    bold: str = ""
    hover: str = ""
    anchor: Literal["left", "center", "right"] = "left"
    arrow: tuple[float, float] | None = None
    arrow_y: float | None = None
    is_boxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A straight line from one point to another, behind nothing."""

    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure.

    Attributes:
        name: Of letters, digits and dashes, different from that of others of its document.
        height: In pixels.
        is_horizontal: Whether bars lie.
        is_stacked: Whether bars of several series go on from one another; else they overlap or stand apart.
        is_grouped: Whether bars of several series with one label stand side by side.
        hovers_by_x: Whether pointing shows all series at one x.
        zooms: Whether a page lets one look closer along x.
        legend: Where it is, if any.
        right_margin: Room for labels beside the plot, in pixels.
    """

    name: str
    series: tuple[Series, ...]
    x: Axis = Axis()
    y: Axis = Axis()
    height: int
    is_horizontal: bool = False
    is_stacked: bool = False
    is_grouped: bool = False
    hovers_by_x: bool = False
    zooms: bool = False
    legend: Literal["", "above", "below"] = ""
    rules: tuple[Rule, ...] = ()
    labels: tuple[Label, ...] = ()
    segments: tuple[Segment, ...] = ()
    right_margin: int = 12

    def with_rules(self, *rules: Rule) -> Figure:
        """The same with lines across it."""
        return replace(self, rules=(*self.rules, *rules))

    def with_series(self, *series: Series) -> Figure:
        """The same with more series, drawn over the others."""
        return replace(self, series=(*self.series, *series))

    def with_end(self, high: float) -> Figure:
        """The same with an x axis from 0 to ``high``."""
        return replace(self, x=replace(self.x, low=0, high=high))
