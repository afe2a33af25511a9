from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from builders import small_forecast
from perfcast.core.forecast.device import Forecast
from perfcast.report.document import Card, Cell, Column, Document, Section, Table
from perfcast.report.documents.step.device import document_of
from perfcast.report.figure import Curve, Figure
from perfcast.report.page import render_page
from perfcast.units import format_bytes, format_seconds

HOSTILE = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Counts elements and collects addresses that a browser would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(document_of(small_forecast()))


def test_the_page_loads_nothing_from_anywhere(html: str) -> None:
    assert Elements(html).addresses == []
    assert "default-src 'none'" in html
    styles = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles


def test_every_figure_is_there_for_screens_and_for_telephones_without_a_chart_library(html: str) -> None:
    assert html.count('role="img"') == 2 * html.count('class="figure"') > 0
    assert "plotly" not in html
    assert len(html) < 300_000
    assert re.findall(r'id="figure-(\w+)"', html) == [
        "phases",
        "kinds",
        "layers",
        "modules",
        "roofline",
        "timeline",
        "memory",
    ]


def test_the_page_declares_charset_title_and_viewport(html: str) -> None:
    head = html[:2000]
    assert '<meta charset="utf-8">' in head
    assert "<title>tiny on NVIDIA H100 SXM</title>" in head
    assert 'name="viewport"' in head


def test_the_page_shows_the_headline_figures_and_assumptions(html: str, forecast: Forecast) -> None:
    for expected in (
        format_seconds(forecast.step_seconds),
        format_bytes(forecast.memory.peak_bytes),
        f"{100 * forecast.mfu:.1f} %",
        *forecast.assumptions,
    ):
        assert expected in html


def test_a_model_name_cannot_inject_markup(html: str) -> None:
    hostile = replace(
        small_forecast(HOSTILE),
        device_title=HOSTILE,
        cost_model=HOSTILE,
        assumptions=(HOSTILE,),
        operations=tuple(
            replace(o, name=HOSTILE, kind=HOSTILE, phase=HOSTILE, shapes=HOSTILE, bound_by=HOSTILE)
            for o in small_forecast().operations
        ),
        by_kind=tuple(replace(g, label=HOSTILE + g.label) for g in small_forecast().by_kind),
        by_module=tuple(replace(g, label=HOSTILE + g.label) for g in small_forecast().by_module),
        seconds_by_phase={HOSTILE: 1.0},
    )
    result = render_page(document_of(hostile))
    assert HOSTILE not in result
    assert Elements(result).tags.count("script") == Elements(html).tags.count("script")


def test_a_model_that_does_not_fit_raises_the_alarm() -> None:
    html = render_page(document_of(small_forecast(capacity_bytes=2**27)))
    assert 'class="card alarm"' in html
    assert "of 128 MiB; does not fit" in html


def test_the_same_forecast_gives_the_same_page(html: str) -> None:
    assert render_page(document_of(small_forecast())) == html


def test_a_page_of_others_escapes_headings() -> None:
    html = render_page(
        Document(title="a < b", blocks=(Section(title="c & d", cards=(Card(label="<i>", value="1 & 2"),)),))
    )
    assert "<title>a &lt; b</title>" in html
    assert "<h2>c &amp; d</h2>" in html
    assert "&lt;i&gt;" in html


def test_a_table_carries_the_numbers_to_sort_by() -> None:
    columns = (Column("Name"), Column("Time", "s"), Column("Size"))
    rows = (("a<b", 0.002, Cell("3 × 4", 12)), ("c", None, Cell("0", 0)))
    html = render_page(Document(title="t", blocks=(Table(columns=columns, rows=rows),)))
    assert '<td data-value="12" class="number">3 × 4</td>' in html
    assert '<td data-value="0" class="number">–</td>' in html
    assert '<td data-value="0.002" class="number">2.00 ms</td>' in html
    assert "<td>a&lt;b</td>" in html
    assert html.count("<button") == 3


def test_importing_the_page_does_not_import_plotly() -> None:
    check = (
        "import sys, perfcast.report.page, perfcast.report.documents.step.device;"
        " sys.exit('plotly' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def wide_table(num_columns: int) -> Document:
    columns = tuple(Column(f"Heading number {at}", "s") for at in range(num_columns))
    rows = tuple(tuple(0.001 * (at + row) for at in range(num_columns)) for row in range(3))
    return Document(title="t", blocks=(Table(columns=columns, rows=rows),))


@pytest.mark.parametrize(("num_columns", "kinds"), [(2, None), (6, "stacks"), (14, "stacks tight")])
def test_a_table_that_needs_more_room_than_there_is_has_another_form(
    num_columns: int, kinds: str | None
) -> None:
    html = render_page(wide_table(num_columns))
    assert f'<table class="{kinds} t' in html if kinds else "<table>" in html
    assert all(f">Heading number {at}</button>" in html for at in range(num_columns))


def test_what_pointing_shows_is_kept_once_and_ends_no_script() -> None:
    curve = Curve(x=(1.0, 2.0), y=(1.0, 2.0), colour="red", mode="markers", hovers=("</script>", "</script>"))
    html = render_page(Document(title="t", blocks=(Figure(name="f", series=(curve,), height=200),)))
    tips = re.search(r'id="tips">(.*?)</script>', html)
    assert tips is not None
    assert json.loads(tips[1]) == ["</script>"]
    assert html.count('data-t="0"') == 4


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_reaches_beyond_the_edge_of_a_screen(width: int, tmp_path: Path) -> None:
    """In Debian's Chromium, where it is."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    pages = (render_page(document_of(small_forecast(num_layers=30))), render_page(wide_table(14)))
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        screen = browser.new_page(viewport={"width": width, "height": 900})
        said: list[str] = []
        screen.on("console", lambda message: said.append(message.text))
        screen.on("pageerror", lambda error: said.append(str(error)))
        for html in pages:
            (tmp_path / "page.html").write_text(html)
            screen.goto(f"file://{tmp_path}/page.html")
            assert screen.evaluate("document.documentElement.scrollWidth") == width
            cropped = (
                "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
            )
            assert screen.evaluate(cropped) == 0
            visible = "[...document.querySelectorAll('[role=img]')].filter(e => e.checkVisibility()).length"
            assert screen.evaluate(visible) == html.count('role="img"') / 2
        browser.close()
    assert said == []


def test_a_timeline_is_looked_into_by_dragging_and_by_keys_and_seen_whole_again(tmp_path: Path) -> None:
    """In Debian's Chromium, where it is."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    (tmp_path / "page.html").write_text(render_page(document_of(small_forecast())))
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        screen = browser.new_page(viewport={"width": 1280, "height": 900})
        screen.goto(f"file://{tmp_path}/page.html")
        plot = screen.locator("#figure-timeline .wide svg.zoom")
        plot.scroll_into_view_if_needed()
        whole = plot.get_attribute("viewBox")
        ticks = screen.locator("#figure-timeline .wide .xticks").text_content
        before = ticks()
        box = plot.locator("rect").first.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        screen.mouse.move(box["x"] + box["width"] * 0.25, y)
        screen.mouse.down()
        screen.mouse.move(box["x"] + box["width"] * 0.75, y)
        screen.mouse.up()
        left, _, wide, _ = map(float, (whole or "").split())
        zoomed = [float(number) for number in (plot.get_attribute("viewBox") or "").split()]
        assert zoomed[0] == pytest.approx(left + wide / 4, rel=0.02)
        assert zoomed[2] == pytest.approx(wide / 2, rel=0.02)
        assert ticks() != before
        assert screen.locator("#figure-timeline .wide .notes").evaluate("e => e.style.visibility") == "hidden"
        screen.keyboard.press("Escape")
        plot.focus()
        plot.press("Escape")
        seen = [float(number) for number in (plot.get_attribute("viewBox") or "").split()]
        assert seen == pytest.approx([float(number) for number in (whole or "").split()])
        assert ticks() == before
        plot.press("+")
        assert float((plot.get_attribute("viewBox") or "").split()[2]) == pytest.approx(wide / 2)
        browser.close()
