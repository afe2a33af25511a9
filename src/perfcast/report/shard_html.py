"""A choice of sharding as one HTML file: what it wins, devices, tables."""

from __future__ import annotations

import math
from html import escape

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
from perfcast.report.recommender_html import placements_html
from perfcast.report.shard_figures import plot_devices, plot_rules
from perfcast.report.shard_text import describe_gain, describe_kinds, describe_sharding
from perfcast.report.tables import percent, words
from perfcast.search.sharding.on_cluster import ShardingFindings
from perfcast.search.sharding.result import BaselineTime, ShardingChoice
from perfcast.units import format_bytes, format_seconds


def render_sharding_html(found: ShardingFindings) -> str:
    """The whole report as one page."""
    choice = found.choice
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.assumptions)
    sections = [
        Section("", f'<p class="lead">{escape(_describe(found))}</p>{cards(_headline(choice))}'),
        Section("Published rules beside it", _rules(choice)),
        Section("Where the step goes", _parts(choice)),
        Section("Devices", figure_html(plot_devices(choice), "devices") + _devices(choice)),
        Section("Tables", placements_html(choice.tables, choice.placements)),
        Section("Assumptions", f"<ul>{notes}</ul>"),
    ]
    title = f"{len(choice.tables):,} tables on {choice.num_ranks:,} × {found.device}"
    return page(title, sections)


def _describe(found: ShardingFindings) -> str:
    choice = found.choice
    return (
        f"{describe_sharding(found)}: {describe_kinds(choice.placements)}. "
        f"Found from {choice.origin}, with {choice.num_rounds} changes; "
        f"tables updated by {words(found.optimizer)}, lookups priced by {words(found.cost_model)}."
    )


def _headline(choice: ShardingChoice) -> list[Card]:
    time = choice.time
    low, high = format_seconds(time.step_seconds_low), format_seconds(time.step_seconds_high)
    most = max(rank.memory_bytes for rank in choice.ranks)
    lookups = time.forward_seconds + time.backward_seconds
    return [
        Card("Step", format_seconds(time.step_seconds), f"{low} – {high}"),
        _gain(choice),
        Card("Lookups", format_seconds(lookups), f"busiest device {percent(time.imbalance)} above the mean"),
        Card("Exchanges", format_seconds(time.exchange_seconds), "between devices"),
        Card("Fullest device", format_bytes(most), f"of {format_bytes(choice.memory_limit_bytes)}"),
    ]


def _gain(choice: ShardingChoice) -> Card:
    gains = [one.gain for one in choice.baselines if one.gain is not None]
    value = percent(min(gains)) if gains else "–"
    return Card("Expected to win", value, describe_gain(choice.baselines))


def _rules(choice: ShardingChoice) -> str:
    ordered = sorted(choice.baselines, key=lambda one: one.time.step_seconds if one.time else math.inf)
    headings = ("Rule", "Step", "Longer by", "90 % interval", "Exchanges", "Imbalance")
    note = "The interval is that of the difference: errors common to both placements cancel."
    shown = table(headings, [_rule(one) for one in ordered])
    return figure_html(plot_rules(choice), "rules") + shown + f'<p class="note">{note}</p>'


def _rule(one: BaselineTime) -> tuple[Cell, ...]:
    if one.time is None or one.gain is None or one.gain_low is None or one.gain_high is None:
        none = Cell("–", math.inf)
        return (Cell(one.name), Cell("no memory", math.inf), none, Cell("–"), none, none)
    time = one.time
    return (
        Cell(one.name),
        Cell(format_seconds(time.step_seconds), time.step_seconds),
        Cell(percent(one.gain), one.gain),
        Cell(f"{percent(one.gain_low)} – {percent(one.gain_high)}"),
        Cell(format_seconds(time.exchange_seconds), time.exchange_seconds),
        Cell(percent(time.imbalance), time.imbalance),
    )


def _parts(choice: ShardingChoice) -> str:
    time = choice.time
    parts = (
        ("lookups forward, slowest device", time.forward_seconds),
        ("lookups backward with the update, slowest device", time.backward_seconds),
        ("exchange of indices", time.index_seconds),
        ("exchange of sums", time.output_seconds),
        ("exchange of their gradients", time.gradient_seconds),
        ("all-reduce of replicated tables' gradients", time.reduce_seconds),
    )
    rows = [
        (Cell(name), Cell(format_seconds(seconds), seconds), share(seconds, time.step_seconds))
        for name, seconds in parts
        if seconds
    ]
    return table(("Part", "Time", "Share"), rows)


def _devices(choice: ShardingChoice) -> str:
    rows = [
        (
            Cell(str(rank.rank), rank.rank),
            Cell(str(rank.num_tables), rank.num_tables),
            Cell(format_seconds(rank.forward_seconds), rank.forward_seconds),
            Cell(format_seconds(rank.backward_seconds), rank.backward_seconds),
            Cell(format_bytes(rank.sent_bytes), rank.sent_bytes),
            Cell(format_bytes(rank.memory_bytes), rank.memory_bytes),
        )
        for rank in choice.ranks[:MAX_ROWS]
    ]
    headings = ("Rank", "Tables", "Forward", "Backward", "Sends", "Memory")
    return table(headings, rows) + left_out(len(choice.ranks), "devices")
