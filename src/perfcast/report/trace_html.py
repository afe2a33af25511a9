"""An explained recording as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from perfcast.report import trace_figures
from perfcast.report.html import (
    MAX_ROWS,
    Card,
    Cell,
    Section,
    cards,
    figure_html,
    left_out,
    page,
    share,
    table,
)
from perfcast.report.tables import percent, words
from perfcast.report.trace_text import OVERHEADS, describe_recording, short_name
from perfcast.traces.explain.breakdown import TimeShare
from perfcast.traces.explain.compare import Change, Comparison
from perfcast.traces.explain.recordings import Explanation, RankExplanation
from perfcast.units import format_bytes, format_count, format_seconds


def render_explanation_html(explanation: Explanation, comparison: Comparison | None = None) -> str:
    """The whole report; the first rank stands for those like it."""
    first = explanation.ranks[0]
    own = first.breakdown
    sections = [
        Section("", cards(_headline(explanation))),
        Section("Where the time went", _device_time(explanation)),
        *(_compared(comparison) if comparison else ()),
        Section("Work by kind", _plot(own.kinds, "kinds", by_kind=True)),
        Section("By phase", _plot(own.phases, "phases")),
        Section("By module", _plot(own.modules, "modules", are_paths=True) + _shares(own.modules, "Module")),
        Section("By marked range", _plot(own.ranges, "ranges")),
        Section("Critical path", _path(first)),
        Section("Host overheads", _overheads(first)),
        Section("Collectives", _collectives(explanation)),
        Section("Ranks", _ranks(explanation)),
        Section("Kernels", _shares(own.kernels, "Kernel")),
        Section("Operators", _shares(own.operators, "Operator")),
        Section("Notes", f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in explanation.notes)}</ul>"),
    ]
    return page(describe_recording(explanation), [s for s in sections if s.body and s.body != "<ul></ul>"])


def _headline(explanation: Explanation) -> list[Card]:
    own = explanation.ranks[0].breakdown
    time, total = own.device_time, own.device_time.window_seconds or 1.0
    steps = len(own.step_seconds)
    items = [
        Card(
            "Step",
            format_seconds(explanation.mean_step_seconds),
            _steps(steps),
        ),
        Card(
            "Busy", percent(time.busy_seconds / total), f"computing {percent(time.compute_seconds / total)}"
        ),
        Card(
            "Host-bound",
            percent(time.host_bound_share),
            "device waits for the host" if own.on_device else "no operator runs",
        ),
    ]
    if time.communication_seconds:
        hidden = percent(time.overlap_seconds / time.communication_seconds)
        exposed = percent(time.exposed_communication_seconds / total)
        items.append(Card("Exposed communication", exposed, f"{hidden} of all beside computing"))
    stragglers = [str(load.rank) for load in explanation.imbalance.ranks if load.is_straggler]
    if stragglers:
        items.append(Card("Stragglers", ", ".join(stragglers), "come last to collectives", alarm=True))
    return items


def _steps(count: int) -> str:
    return "no marked steps" if not count else "one marked step" if count == 1 else f"mean of {count} steps"


def _device_time(explanation: Explanation) -> str:
    note = (
        "A device that stands still waits for the host until the next kernel is launched, then for the "
        "kernel to start; longer waits have another cause. The parts add up to the window."
    )
    return figure_html(trace_figures.plot_device_time(explanation), "device") + f'<p class="note">{note}</p>'


def _plot(shares: Sequence[TimeShare], name: str, *, by_kind: bool = False, are_paths: bool = False) -> str:
    if not any(item.seconds > 0 for item in shares):
        return ""
    return figure_html(trace_figures.plot_shares(shares, by_kind=by_kind, are_paths=are_paths), name)


def _shares(shares: Sequence[TimeShare], label: str) -> str:
    if not shares:
        return ""
    total = sum(item.seconds for item in shares)
    has_kinds = any(item.kind for item in shares)
    rows = [
        (
            Cell(item.label or "(none)"),
            *([Cell(words(item.kind))] if has_kinds else []),
            Cell(format_seconds(item.seconds), item.seconds),
            share(item.seconds, total),
            Cell(f"{item.count:,}", item.count),
            Cell(format_seconds(item.mean_seconds), item.mean_seconds),
        )
        for item in shares[:MAX_ROWS]
    ]
    headings = (label, *(["Kind"] if has_kinds else []), "Time", "Share", "Count", "Mean")
    shown = table(headings, rows)
    return shown + left_out(len(shares), f"{label.lower()}s")


def _path(rank: RankExplanation) -> str:
    path = rank.critical_path
    if not path.stretches:
        return ""
    longest = sorted(path.stretches, key=lambda s: -s.seconds)[:MAX_ROWS]
    rows = [
        (
            Cell(s.bound_by.value),
            Cell(s.kind.value),
            Cell(format_seconds(s.start_seconds), s.start_seconds),
            Cell(format_seconds(s.seconds), s.seconds),
            Cell(short_name(s.name) or "–"),
        )
        for s in longest
        if s.seconds > 0
    ]
    note = (
        f"{format_seconds(path.seconds)} in {len(path.stretches):,} stretches; the longest are below; "
        "the timeline shows all of them."
    )
    figure = figure_html(trace_figures.plot_path(path.seconds_by_bound), "path")
    shown = table(("Spent on", "Stretch", "From", "Time", "Event"), rows)
    return f'{figure}<p class="note">{escape(note)}</p>{shown}'


def _overheads(rank: RankExplanation) -> str:
    if not rank.overheads:
        return ""
    total = sum(item.seconds for item in rank.overheads)
    rows = [
        (
            Cell(item.overhead.value),
            Cell(OVERHEADS[item.overhead]),
            Cell(format_seconds(item.seconds), item.seconds),
            share(item.seconds, total),
            Cell(f"{item.count:,}", item.count),
            Cell(format_seconds(item.mean_seconds), item.mean_seconds),
        )
        for item in rank.overheads
    ]
    return table(("", "What", "Time", "Share", "Count", "Mean"), rows)


def _collectives(explanation: Explanation) -> str:
    if not explanation.collectives:
        return ""
    rows = [
        (
            Cell(f"{words(e.name)} {e.dtype}".strip()),
            Cell(format_bytes(e.message_bytes) if e.message_bytes else "–", e.message_bytes),
            Cell(str(e.group_size), e.group_size),
            Cell(f"{e.count:,}", e.count),
            Cell(format_seconds(e.seconds), e.seconds),
            Cell(format_seconds(e.transfer_seconds), e.transfer_seconds),
            Cell(format_count(e.bus_bytes_per_second, "B/s") if e.bus_bytes else "–", e.bus_bytes_per_second),
        )
        for e in explanation.collectives[:MAX_ROWS]
    ]
    return table(("Collective", "Message", "Ranks", "Count", "Time", "Transfer", "Bus bandwidth"), rows)


def _ranks(explanation: Explanation) -> str:
    imbalance = explanation.imbalance
    if len(imbalance.ranks) < 2:
        return ""
    rows = [
        (
            Cell(str(r.rank), r.rank),
            Cell(format_seconds(r.step_seconds), r.step_seconds),
            Cell(format_seconds(r.compute_seconds), r.compute_seconds),
            Cell(format_seconds(r.communication_seconds), r.communication_seconds),
            Cell(format_seconds(r.communication_wait_seconds), r.communication_wait_seconds),
            Cell(f"{r.num_last} of {imbalance.num_matched}", r.num_last),
            Cell("straggler" if r.is_straggler else ""),
        )
        for r in imbalance.ranks
    ]
    note = f"The longest computes {percent(imbalance.compute_imbalance)} above the mean."
    headings = ("Rank", "Step", "Computing", "Communicating", "of it waiting", "Came last", "")
    return table(headings, rows) + f'<p class="note">{note}</p>'


def _compared(comparison: Comparison) -> list[Section]:
    before, after = comparison.before_step_seconds, comparison.after_step_seconds
    lead = f"{format_seconds(before)} before, {format_seconds(after)} after"
    body = f'<p class="lead">{escape(lead)}</p>'
    groups = (
        ("device's time", comparison.parts), ("kinds", comparison.kinds), ("operators", comparison.operators),
        ("kernels", comparison.kernels), ("modules", comparison.modules), ("host", comparison.overheads),
    )  # fmt: skip
    for index, (name, changes) in enumerate(groups):
        if any(change.seconds for change in changes):
            plot = trace_figures.plot_changes(changes, are_paths=name == "modules")
            figure = figure_html(plot, f"change-{index}")
            body += f"<h3>{escape(name)}</h3>{figure}"
    return [Section("What changed, a step", body + _changes(comparison.operators))]


def _changes(changes: Sequence[Change]) -> str:
    rows = [
        (
            Cell(c.label or "(none)"),
            Cell(_seconds(c.before_seconds), c.before_seconds),
            Cell(_seconds(c.after_seconds), c.after_seconds),
            Cell(f"{'+' if c.seconds > 0 else '−'}{format_seconds(abs(c.seconds))}", c.seconds),
        )
        for c in changes[:MAX_ROWS]
    ]
    return table(("Operator", "Before", "After", "Change"), rows)


def _seconds(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "–"
