"""A replay beside its recording as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from perfcast.replay.judge.fidelity import Fidelity, Pair
from perfcast.report.html import MAX_ROWS, Card, Cell, Section, cards, left_out, page, table
from perfcast.report.replay_text import describe_program, error, headline, known, side_by_side
from perfcast.report.tables import percent, words
from perfcast.units import format_count, format_seconds


def render_replay_html(ranks: Sequence[Fidelity]) -> str:
    """The whole report, rank by rank."""
    sections = []
    for fidelity in ranks:
        name = f"Rank {fidelity.program.rank}: " if len(ranks) > 1 else ""
        sections += [Section(name + title, body) for title, body in _parts(fidelity) if body]
    return page(f"Replay of {describe_program(ranks[0].program)}", sections)


def _parts(fidelity: Fidelity) -> list[tuple[str, str]]:
    items = [
        Card("Coverage", percent(fidelity.operation_coverage), "of the selected calls"),
        Card("Step", known(fidelity.processor.median, format_seconds), "processor time"),
        Card("Host gaps", fidelity.host_gaps, ""),
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in fidelity.notes)
    lines = [(Cell(name), Cell(value)) for name, value in headline(fidelity)]
    return [
        ("Replay", cards(items) + table(("", ""), lines)),
        ("A step", _pairs(side_by_side(fidelity))),
        ("Time by kind of work, watched", _pairs([(pair, format_seconds) for pair in fidelity.kinds])),
        ("Collectives", _collectives(fidelity)),
        ("Left out", _left_out(fidelity)),
        ("Notes", f"<ul>{notes}</ul>" if notes else ""),
    ]


def _pairs(pairs: Sequence[tuple[Pair, Callable[[float], str]]]) -> str:
    rows = [
        (
            Cell(words(pair.label)),
            Cell(known(pair.recorded, shown)),
            Cell(known(pair.replayed, shown)),
            Cell(error(pair)),
        )
        for pair, shown in pairs
    ]
    return table(("", "Recorded", "Replayed", "Difference"), rows) if rows else ""


def _collectives(fidelity: Fidelity) -> str:
    rows = [
        (
            Cell(one.name),
            Cell(known(one.median_seconds, format_seconds)),
            Cell(known(one.bus_bytes_per_second, lambda value: format_count(value, "B/s"))),
            Cell("emulated" if one.is_emulated else "asynchronous" if one.is_asynchronous else ""),
        )
        for one in fidelity.collectives[:MAX_ROWS]
    ]
    return table(("Collective", "Time", "Bus bandwidth", ""), rows) if rows else ""


def _left_out(fidelity: Fidelity) -> str:
    rows = [
        (
            Cell(one.operator),
            Cell(f"{one.count:,}", one.count),
            Cell("nothing is lost" if one.is_harmless else known(one.seconds, format_seconds)),
            Cell(one.reason),
        )
        for one in fidelity.left_out[:MAX_ROWS]
    ]
    if not rows:
        return ""
    return table(("Operator", "Calls", "Recorded time", "Why"), rows) + left_out(
        len(fidelity.left_out), "reasons"
    )
