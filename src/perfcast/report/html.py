"""A forecast as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from perfcast.core.forecast.device import Forecast, KindTime
from perfcast.report import figures
from perfcast.report.json_format import tokens_per_second
from perfcast.report.memory_figures import plot_memory
from perfcast.report.text import (
    bound_by_kind,
    describe_peak,
    describe_provenance,
    describe_workload,
)
from perfcast.units import format_bytes, format_count, format_seconds
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_ROWS = 200

#: The file may run its own script and styles, and reach nothing outside itself.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --ground: #ffffff;
        --panel: #f4f6f9; --line: #dde3ea; --alarm: #b3261e; --good: #1d7a5a }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #a3adba; --ground: #12161c;
          --panel: #1b212a; --line: #303945; --alarm: #ff8a80; --good: #6fd3ae }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 48px }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere }
h2 { font-size: 18px; margin: 36px 0 8px }
.lead, .note, footer { color: var(--soft) }
.lead { margin: 0 0 18px }
.note { font-size: 13px; margin: 6px 0 12px; overflow-wrap: anywhere }
footer { margin-top: 40px; font-size: 13px }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px }
.card { background: var(--panel); border-radius: 10px; padding: 12px 14px;
        display: flex; flex-direction: column }
.card span, .card small { color: var(--soft); font-size: 13px }
.card strong { font-size: 23px; line-height: 1.35; font-variant-numeric: tabular-nums }
.card.alarm strong, .card.alarm small { color: var(--alarm) }
.verdict { font-size: 17px; margin: 0 0 16px }
.verdict strong { font-size: 34px; line-height: 1.2; margin-right: 10px }
.verdict.yes strong { color: var(--good) }
.verdict.no strong { color: var(--alarm) }
.scroll { overflow: auto; max-height: 480px }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { padding: 5px 10px; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top }
td { overflow-wrap: break-word; max-width: 340px }
th { position: sticky; top: 0; background: var(--ground) }
.number { text-align: right; white-space: nowrap }
th button { all: unset; cursor: pointer; color: var(--soft); font-weight: 600; white-space: nowrap }
th button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px }
th[aria-sort=ascending] button::after { content: " ↑" }
th[aria-sort=descending] button::after { content: " ↓" }
.xtick text, .x2tick text, .ytick text, .xtitle, .x2title, .ytitle, .legendtext,
.bartext-outside { fill: var(--ink) !important }
.scatterlayer .textpoint text, .annotation-text { fill: var(--ink) !important }
@media (max-width: 600px) {
  main { padding: 16px 12px 32px }
  h1 { font-size: 21px }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px }
  .card strong { font-size: 19px }
  th, td { padding: 5px 6px }
}
@media print {
  main { max-width: none; padding: 0 }
  .card { border: 1px solid var(--line) }
  .figure, tr, .card { break-inside: avoid }
  h2 { break-after: avoid }
  .scroll { overflow: visible; max-height: none }
  th { position: static }
}
"""

SCRIPT = """
document.querySelectorAll("th button").forEach(button => button.addEventListener("click", () => {
  const th = button.parentNode, body = th.closest("table").tBodies[0];
  const index = th.cellIndex, numeric = th.classList.contains("number");
  const up = numeric ? th.ariaSort === "descending" : th.ariaSort !== "ascending";
  const key = row => row.cells[index].dataset.value;
  const text = row => row.cells[index].textContent;
  const order = (a, b) => numeric ? key(a) - key(b) : text(a).localeCompare(text(b));
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
}));
"""


class Section(NamedTuple):
    """A part of a page: its heading (text) and its body (HTML, already escaped)."""

    heading: str
    body: str


class Card(NamedTuple):
    """A headline figure; all text."""

    label: str
    value: str
    detail: str = ""
    alarm: bool = False


class Cell(NamedTuple):
    """A cell of a table: what is shown, and the number to sort by (None sorts as text)."""

    text: str
    value: float | None = None


def render_forecast_html(forecast: Forecast) -> str:
    """The whole report of a forecast as one page."""
    title = f"{forecast.model} on {forecast.device_title or forecast.device}"
    sections = [
        Section("", f'<p class="lead">{escape(describe_workload(forecast))}</p>{cards(_headline(forecast))}'),
        Section("Time by kind of operation", figure_html(figures.plot_kinds(forecast), "kinds")),
        Section("Time by phase", figure_html(figures.plot_phases(forecast), "phases")),
        Section("Time by module", figure_html(figures.plot_modules(forecast), "modules")),
        Section("Roofline", _roofline(forecast)),
        Section("Memory over the step", memory_section(forecast)),
        Section("Kinds", _kind_table(forecast)),
        Section("Modules", _module_table(forecast.by_module)),
        Section("Operations", _operation_table(forecast)),
        Section("Assumptions", assumptions(forecast)),
    ]
    return page(title, sections)


def page(title: str, sections: Sequence[Section]) -> str:
    """A self-contained page; plotly.js is inlined once if a section holds a figure.

    ``title`` and headings are text and are escaped; bodies are HTML.
    """
    body = "\n".join(
        f"<section>{f'<h2>{escape(section.heading)}</h2>' if section.heading else ''}{section.body}</section>"
        for section in sections
    )
    plotly = ""
    if any("plotly-graph-div" in section.body for section in sections):
        from plotly.offline import get_plotlyjs

        plotly = f"<script>{get_plotlyjs()}</script>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLE}</style>
{plotly}
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{body}
<footer>perfcast {escape(perfcast_version())}</footer>
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def cards(items: Iterable[Card]) -> str:
    """Headline figures side by side."""
    parts = (
        f'<div class="card{" alarm" if card.alarm else ""}"><span>{escape(card.label)}</span>'
        f"<strong>{escape(card.value)}</strong><small>{escape(card.detail)}</small></div>"
        for card in items
    )
    return f'<div class="cards">{"".join(parts)}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table that sorts by a click on a heading; cells with a value align right."""
    rows = list(rows)
    numeric = [any(row[i].value is not None for row in rows) for i in range(len(headings))]
    head = "".join(
        f'<th scope="col"{_number(is_number)}><button type="button">{escape(heading)}</button></th>'
        for heading, is_number in zip(headings, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    rows_html = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll" tabindex="0"><table>{rows_html}</table></div>'


def figure_html(figure: Figure, name: str) -> str:
    """A figure's element and script; plotly.js comes with the page."""
    from plotly.io import to_html

    html: str = to_html(
        figure,
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{name}",
        config={"responsive": True, "displaylogo": False, "displayModeBar": False},
    )
    return f'<div class="figure">{html}</div>'


def _headline(forecast: Forecast) -> list[Card]:
    memory = forecast.memory
    low, high = format_seconds(forecast.step_seconds_low), format_seconds(forecast.step_seconds_high)
    samples, tokens = format_count(forecast.samples_per_second), tokens_per_second(forecast)
    throughput = (
        Card("Samples per second", samples)
        if tokens is None
        else Card("Tokens per second", format_count(tokens), f"{samples} samples per second")
    )
    spare = format_bytes(abs(memory.capacity_bytes - memory.peak_bytes))
    capacity = format_bytes(memory.capacity_bytes)
    fit = f"fits in {capacity}, {spare} free" if memory.fits else f"{spare} over the {capacity} of the device"
    return [
        Card("Step time", format_seconds(forecast.step_seconds), f"{low} – {high}"),
        throughput,
        Card("MFU", f"{100 * forecast.mfu:.1f} %", f"HFU {100 * forecast.hfu:.1f} %"),
        Card("Peak memory", format_bytes(memory.peak_bytes), fit, alarm=not memory.fits),
        Card("Parameters", format_count(forecast.parameter_count), _cost_model(forecast)),
    ]


def _cost_model(forecast: Forecast) -> str:
    known = describe_provenance(forecast)
    return f"cost model: {forecast.cost_model}" + (f"; time that is {known}" if known else "")


def _roofline(forecast: Forecast) -> str:
    note = (
        "Each marker is one different operation; its area is its share of the step. "
        "Operations without arithmetic, such as copies, have no place here."
    )
    return figure_html(figures.plot_roofline(forecast), "roofline") + f'<p class="note">{note}</p>'


def memory_section(forecast: Forecast) -> str:
    """Memory over the step by category, where its peak is, and what the peak consists of."""
    memory = forecast.memory
    notes = (
        f"Peak {describe_peak(memory)}. Freeing each block right after its last use would need "
        f"{format_bytes(memory.peak_by_last_use_bytes)}. "
        f"The device has {format_bytes(memory.capacity_bytes)}."
    )
    rows = [
        (Cell(words(name)), Cell(format_bytes(num_bytes), num_bytes), share(num_bytes, memory.peak_bytes))
        for name, num_bytes in sorted(memory.bytes_by_category.items(), key=lambda item: -item[1])
    ]
    return (
        figure_html(plot_memory(forecast), "memory")
        + f'<p class="note">{escape(notes)}</p>'
        + table(("Category", "At the peak", "Share"), rows)
    )


def _kind_table(forecast: Forecast) -> str:
    limits = bound_by_kind(forecast.operations)
    total = sum(group.seconds for group in forecast.by_kind)
    rows = [
        (Cell(words(group.label)), *_group_cells(group, total), Cell(limits.get(group.label, "–")))
        for group in sorted(forecast.by_kind, key=lambda g: -g.seconds)
        if group.seconds
    ]
    return table(("Kind", "Time", "Share", "Count", "FLOP", "Memory traffic", "Bound by"), rows)


def _module_table(groups: Sequence[KindTime]) -> str:
    total = sum(group.seconds for group in groups)
    longest = sorted(groups, key=lambda g: -g.seconds)[:MAX_ROWS]
    rows = [(Cell(group.label or "(model)"), *_group_cells(group, total)) for group in longest]
    shown = table(("Module", "Time", "Share", "Count", "FLOP", "Memory traffic"), rows)
    return shown + left_out(len(groups), "modules")


def _group_cells(group: KindTime, total: float) -> tuple[Cell, ...]:
    return (
        Cell(format_seconds(group.seconds), group.seconds),
        share(group.seconds, total),
        Cell(str(group.count), group.count),
        Cell(format_count(group.flops) if group.flops else "0", group.flops),
        Cell(format_bytes(group.memory_traffic_bytes), group.memory_traffic_bytes),
    )


def _operation_table(forecast: Forecast) -> str:
    total = sum(operation.seconds for operation in forecast.operations)
    longest = sorted(forecast.operations, key=lambda o: -o.seconds)[:MAX_ROWS]
    rows = [
        (
            Cell(o.name),
            Cell(o.phase),
            Cell(o.shapes),
            Cell(str(o.count), o.count),
            Cell(format_seconds(o.seconds), o.seconds),
            Cell(f"{format_seconds(o.seconds_low)} – {format_seconds(o.seconds_high)}", o.seconds_low),
            share(o.seconds, total),
            Cell(format_bytes(o.output_bytes), o.output_bytes),
            Cell(o.bound_by),
            Cell(o.provenance),
            Cell(o.nearest),
        )
        for o in longest
    ]
    headings = (
        "Operation", "Phase", "Shapes", "Count", "Time", "Interval", "Share", "Output", "Bound by", "Price",
        "Nearest measurement",
    )  # fmt: skip
    return table(headings, rows) + left_out(len(forecast.operations), "different operations")


def left_out(num_rows: int, what: str) -> str:
    """A note under a table that shows ``MAX_ROWS`` of more rows; '' under a full one."""
    return f'<p class="note">The first {MAX_ROWS} of {num_rows} {what}.</p>' if num_rows > MAX_ROWS else ""


def assumptions(forecast: Forecast) -> str:
    """What was taken for granted, as a list."""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in forecast.assumptions)}</ul>"


def share(part: float, total: float) -> Cell:
    """A part of a whole in percent."""
    fraction = part / total if total else 0.0
    return Cell(f"{100 * fraction:.1f} %", fraction)


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{value}{_number(cell.value is not None)}>{escape(cell.text)}</td>"


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def words(name: str) -> str:
    """A key as it is read."""
    return name.replace("_", " ")
