"""Figures as SVG: well formed, inside their edges, no text upon another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import small_forecast
from perfcast.report.blocks import amount_bars, stacked_bars
from perfcast.report.document import list_figures
from perfcast.report.documents.memory.curves import memory_by_module_figure
from perfcast.report.documents.step.device import document_of
from perfcast.report.figure import (
    Axis,
    Bars,
    Curve,
    Figure,
    Heatmap,
    Label,
    Parallel,
    ParallelAxis,
    Rule,
    Strands,
)
from perfcast.report.svg.canvas import Tips
from perfcast.report.svg.draw import NARROW, WIDE, svg_of
from perfcast.report.svg.text import Box, text_box

SVG = "{http://www.w3.org/2000/svg}"
WIDTHS = (WIDE, NARROW)
LONG = "sends between stages and everything else that could take some time"


def gallery() -> list[Figure]:
    """One of every kind that documents draw."""
    forecast = small_forecast(num_layers=12, capacity_bytes=2**30)
    curve = Curve(name="a", x=(1.0, 10.0, 100.0), y=(1.0, 4.0, 9.0), colour="#123456", mode="lines+markers")
    heat = Heatmap(
        values=((0.0, 1.0), (None, 2.0)),
        columns=("rank 0", "rank 1"),
        rows=("rank 0", "rank 1"),
        colours=((0.0, "#000000"), (1.0, "#ffffff")),
        hovers=(("a", "b"), ("c", "d")),
        bar_ticks=((0.0, "1 µs"), (2.0, "3 µs")),
    )
    axes = tuple(
        ParallelAxis(f"name_of_axis_{at}", ((0.0, "1"), (0.5, "4"), (1.0, "tp-cp-pp-dp"))) for at in range(12)
    )
    strands = Strands(lines=((0.0,) * 12, (1.0,) * 12), colour="#3b82c4", hover="both")
    return [
        *list_figures(document_of(forecast)),
        memory_by_module_figure(forecast),
        amount_bars("long", [(LONG, 3.0), ("b", 0.0), ("c", 1.0)], total=4.0, title=LONG),
        stacked_bars(
            "stacked", ["one", "two"], [(LONG, "red", (1.0, 2.0)), ("b", "blue", (2.0, 0.5))], unit="B"
        ),
        Figure(
            name="log",
            series=(curve,),
            height=300,
            legend="below",
            x=Axis(title="x", scale="log"),
            y=Axis(title="y", unit="s"),
        ),
        Figure(
            name="rule",
            series=(curve,),
            height=300,
            rules=(Rule(x=99.0, label="a limit that is named", is_alarm=True),),
        ),
        Figure(
            name="labels",
            series=(curve,),
            height=300,
            labels=tuple(Label(x=10.0, y=4.0, text=f"point {at}", arrow=(20, -20)) for at in range(4)),
        ),
        Figure(
            name="heat",
            series=(heat,),
            height=300,
            x=Axis(scale="category"),
            y=Axis(scale="category", is_reversed=True),
        ),
        Figure(name="parallel", series=(Parallel(axes=axes, strands=(strands,)),), height=400),
        Figure(
            name="upright",
            series=(
                Bars(
                    labels=tuple(f"a device with a long name {at}" for at in range(14)),
                    values=(1.0,) * 14,
                    colours="red",
                ),
            ),
            height=300,
            x=Axis(scale="category"),
        ),
    ]


GALLERY = gallery()


def texts_of(svg: str) -> Iterator[tuple[str, Box]]:
    """Upright texts and where they are."""
    anchors = {None: "left", "middle": "center", "end": "right"}
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if element.get("transform"):
            continue
        lines = [element.text or "", *(part.text or "" for part in element.iter(f"{SVG}tspan"))]
        text = "\n".join(lines)
        yield (
            text,
            text_box(
                float(element.get("x", 0)),
                float(element.get("y", 0)),
                text,
                anchors[element.get("text-anchor")],
                float(element.get("font-size", 12)),
                is_bold=element.get("font-weight") is not None,
            ),
        )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("figure", GALLERY, ids=lambda figure: figure.name)
def test_a_figure_is_well_formed_and_needs_nothing_else(figure: Figure, width: float) -> None:
    root = ElementTree.fromstring(svg_of(figure, width))
    assert root.tag == f"{SVG}svg"
    assert float(root.get("width", 0)) == width
    for element in root.iter():
        assert not (element.get("href") or "data:").startswith(("http", "//", "file"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("figure", GALLERY, ids=lambda figure: figure.name)
def test_no_text_stands_on_another_or_beyond_the_edge(figure: Figure, width: float) -> None:
    svg = svg_of(figure, width)
    height = float(ElementTree.fromstring(svg).get("height", 0))
    texts = list(texts_of(svg))
    edge = Box(-2, -2, width + 2, height + 2)
    assert [text for text, box in texts if not box.is_inside(edge)] == []
    overlaps = [(a[0], b[0]) for a, b in combinations(texts, 2) if a[1].meets(b[1])]
    assert overlaps == []


WORDS = st.text("abcdefghij klmnop_-", min_size=1, max_size=46).map(str.strip).filter(bool)


@given(
    st.lists(st.tuples(WORDS, st.floats(0, 1e3)), min_size=1, max_size=9, unique_by=lambda pair: pair[0]),
    st.sampled_from(WIDTHS),
)
def test_bars_of_any_names_and_amounts_do_not_collide(pairs: list[tuple[str, float]], width: float) -> None:
    svg = svg_of(amount_bars("any", pairs, total=sum(value for _, value in pairs) or 1.0), width)
    texts = list(texts_of(svg))
    assert [(a, b) for a, b in combinations(texts, 2) if a[1].meets(b[1])] == []


def test_stacked_bars_go_on_from_one_another() -> None:
    figure = stacked_bars("s", ["one"], [("a", "#111111", (1.0,)), ("b", "#222222", (3.0,))])
    rects = [
        element
        for element in ElementTree.fromstring(svg_of(figure)).iter(f"{SVG}rect")
        if element.find(f"{SVG}title") is not None
    ]
    first, second = rects
    end = float(first.get("x", 0)) + float(first.get("width", 0))
    assert end == pytest.approx(float(second.get("x", 0)), abs=0.2)
    assert float(second.get("width", 0)) == pytest.approx(3 * float(first.get("width", 0)), rel=0.01)


def test_pointing_says_titles_alone_and_numbers_on_a_page() -> None:
    figure = amount_bars("a", [("one", 1.0)], notes=["said"])
    assert "<title>one\n1.00 s\nsaid</title>" in svg_of(figure)
    tips = Tips()
    assert 'data-t="0"' in svg_of(figure, tips=tips)
    assert tips.texts == ["one\n1.00 s\nsaid"]


def test_text_is_never_markup() -> None:
    figure = amount_bars("a", [("<b>&", 1.0)])
    assert "<b>" not in svg_of(figure)
    assert "<b>&" in [text for text, _ in texts_of(svg_of(figure))]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_of_nothing_is_drawn(width: float) -> None:
    for figure in (
        Figure(name="n", series=(), height=100),
        amount_bars("none", []),
        stacked_bars("s", [], []),
    ):
        ElementTree.fromstring(svg_of(figure, width))
