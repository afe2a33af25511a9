"""A choice of sharding: the step, published rules beside it, devices, tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcast.report import palette
from perfcast.report.blocks import share_table, stacked_bars
from perfcast.report.document import Card, Column, Document, Fact, Note, Section, Table, share_of, words
from perfcast.report.documents.step.pipeline import spread_evenly
from perfcast.report.documents.tables.placed import LOOKUP_BACKWARD, describe_kinds, placement_table
from perfcast.report.figure import Curve, Figure
from perfcast.report.values import Value, percent
from perfcast.searches.sharding.on_cluster import ShardingReport
from perfcast.searches.sharding.result import BaselineTime, ShardingChoice, ShardingTime
from perfcast.units import format_bytes, format_seconds

#: Rows that a terminal shows; JSON has all.
MAX_RANKS = 16

CHOSEN = "this placement"
_LOOKUPS = (
    ("lookups forward", palette.YELLOW, "forward_seconds"),
    ("lookups backward", LOOKUP_BACKWARD, "backward_seconds"),
)
_PARTS = (*_LOOKUPS, ("communication", palette.ORANGE, "communication_seconds"))


def document_of(found: ShardingReport) -> Document:
    """Everything that was found."""
    choice = found.choice
    tables = placement_table(choice.tables, choice.placements)
    return Document(
        title=_describe(found),
        cards=_cards(choice),
        facts=(
            Fact("Communication", _describe_communication(choice.time)),
            Fact("Placement", describe_kinds(choice.placements)),
            Fact("Against rules", describe_gain(choice.baselines)),
            Fact("Tables updated by", words(found.optimizer)),
            Fact("Found from", f"{choice.origin}; {choice.num_rounds} changes; {found.cost_model} prices"),
        ),
        blocks=(
            _rules(choice),
            _parts(choice),
            _devices(choice),
            Section(title="Tables", blocks=(tables,)),
        ),
        assumptions=found.assumptions,
    )


def _describe(found: ShardingReport) -> str:
    """Tables, devices and batch in one line."""
    choice = found.choice
    weights = sum(table.weight_bytes for table in choice.tables)
    return (
        f"{len(choice.tables):,} tables ({format_bytes(weights)}) on {choice.num_ranks:,} × {found.device} "
        f"({found.cluster}), {choice.global_batch_size:,} samples a step"
    )


def _cards(choice: ShardingChoice) -> tuple[Card, ...]:
    time = choice.time
    gains = [one.gain for one in choice.baselines if one.gain is not None]
    forward, backward = format_seconds(time.forward_seconds), format_seconds(time.backward_seconds)
    return (
        Card(
            label="Step",
            value=time.step_seconds,
            unit="s",
            low=time.step_seconds_low,
            high=time.step_seconds_high,
        ),
        Card(
            label="Expected to win",
            value=min(gains) if gains else None,
            unit="share",
            detail="over the best published rule" if gains else "",
        ),
        Card(
            label="Lookups",
            value=time.forward_seconds + time.backward_seconds,
            unit="s",
            detail=(
                f"{forward} forward, {backward} backward; "
                f"the busiest device has {percent(time.imbalance)} more than the mean"
            ),
        ),
        Card(
            label="Memory",
            value=max(rank.memory_bytes for rank in choice.ranks),
            unit="B",
            whole=choice.memory_limit_bytes,
            detail="of the fullest device",
        ),
    )


def _describe_communication(time: ShardingTime) -> str:
    """Seconds between devices, part by part."""
    parts = (
        ("indices", time.index_seconds),
        ("sums", time.output_seconds),
        ("gradients", time.gradient_seconds),
        ("replicated tables' gradients", time.reduce_seconds),
    )
    named = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts if seconds)
    return f"{format_seconds(time.communication_seconds)}" + (f": {named}" if named else "")


def describe_gain(baselines: Sequence[BaselineTime]) -> str:
    """How much longer the best published rule takes, with its interval."""
    fitting = [one for one in baselines if one.gain is not None]
    if not fitting:
        return "no published rule fits the memory"
    best = min(fitting, key=lambda one: one.gain or 0.0)
    assert best.gain is not None
    assert best.gain_low is not None
    assert best.gain_high is not None
    interval = f"{percent(best.gain_low)} – {percent(best.gain_high)}"
    return f"the best published rule, {best.name}, takes {percent(best.gain)} longer ({interval})"


def _rules(choice: ShardingChoice) -> Section:
    ordered = sorted(choice.baselines, key=lambda one: one.time.step_seconds if one.time else math.inf)
    table = Table(
        columns=(
            Column("Rule", folds=False),
            Column("Step", "s", missing="no memory"),
            Column("Longer by", "share"),
            Column("90 % interval", missing=""),
            Column("Communication", "s"),
            Column("Imbalance", "share"),
        ),
        rows=tuple(_rule(one) for one in ordered),
    )
    note = "The interval is that of the difference: errors common to both placements cancel."
    return Section(title="Published rules", blocks=(rules_figure(choice), table, Note(note, only="page")))


def _rule(one: BaselineTime) -> tuple[Value, ...]:
    """Published rules, the fastest first; those that do not fit last."""
    if one.time is None or one.gain is None or one.gain_low is None or one.gain_high is None:
        return (one.name, None, None, None, None, None)
    interval = f"{percent(one.gain_low)} – {percent(one.gain_high)}"
    time = one.time
    return (one.name, time.step_seconds, one.gain, interval, time.communication_seconds, time.imbalance)


def rules_figure(choice: ShardingChoice) -> Figure:
    """Step times of the choice and of the rules that fit, the fastest on top, cut into their parts."""
    fitting = [(one.name, one.time) for one in choice.baselines if one.time is not None]
    rows: list[tuple[str, ShardingTime]] = [(CHOSEN, choice.time)]
    rows += sorted(fitting, key=lambda row: row[1].step_seconds)
    names = [name for name, _ in rows]
    figure = stacked_bars(
        "rules",
        names,
        [(label, colour, [float(getattr(time, key)) for _, time in rows]) for label, colour, key in _PARTS],
        totals=[time.step_seconds for _, time in rows],
    )
    ends = Curve(
        x=tuple(time.step_seconds for _, time in rows),
        y=tuple(names),
        mode="text",
        colour=palette.INK,
        texts=tuple(f" {_versus(time, choice.time)}" for _, time in rows),
        text_place="middle right",
    )
    return figure.with_series(ends).with_end(1.3 * max(time.step_seconds for _, time in rows))


def _versus(time: ShardingTime, chosen: ShardingTime) -> str:
    text = format_seconds(time.step_seconds)
    longer = time.step_seconds / chosen.step_seconds - 1 if chosen.step_seconds else math.inf
    return text if time is chosen else f"{text} · {'+' if longer >= 0 else '−'}{percent(abs(longer))}"


def _parts(choice: ShardingChoice) -> Section:
    time = choice.time
    parts = {
        "lookups forward, slowest device": time.forward_seconds,
        "lookups backward with the update, slowest device": time.backward_seconds,
        "all-to-all of indices": time.index_seconds,
        "all-to-all of sums": time.output_seconds,
        "all-to-all of their gradients": time.gradient_seconds,
        "all-reduce of replicated tables' gradients": time.reduce_seconds,
    }
    shown = {name: seconds for name, seconds in parts.items() if seconds}
    table = share_table("", "Part", shown, total=time.step_seconds)
    return Section(title="Where the step goes", blocks=(table,), only="page")


def _devices(choice: ShardingChoice) -> Section:
    ranks = list(choice.ranks)
    if len(ranks) > MAX_RANKS:
        ranks.sort(key=lambda rank: -(rank.forward_seconds + rank.backward_seconds))
    table = Table(
        columns=(
            Column("Rank"),
            Column("Tables"),
            Column("Forward", "s"),
            Column("Backward", "s"),
            Column("Sends", "B"),
            Column("Memory", "B"),
        ),
        rows=tuple(
            (
                rank.rank,
                rank.num_tables,
                rank.forward_seconds,
                rank.backward_seconds,
                rank.sent_bytes,
                rank.memory_bytes,
            )
            for rank in ranks
        ),
        things="devices, the busiest first",
        most_rows=MAX_RANKS,
    )
    return Section(title="Devices", blocks=(devices_figure(choice), memory_figure(choice), table))


def devices_figure(choice: ShardingChoice) -> Figure:
    """Seconds of lookups on each device."""
    ranks = spread_evenly(choice.ranks)
    return stacked_bars(
        "devices",
        [f"rank {rank.rank}" for rank in ranks],
        [(label, colour, [float(getattr(r, key)) for r in ranks]) for label, colour, key in _LOOKUPS],
        title="of a step",
    )


def memory_figure(choice: ShardingChoice) -> Figure:
    """How much of each device's memory for tables is full."""
    ranks, limit = spread_evenly(choice.ranks), choice.memory_limit_bytes
    return stacked_bars(
        "device-memory",
        [f"rank {rank.rank}" for rank in ranks],
        [("memory", palette.BLUE, [share_of(rank.memory_bytes, limit) for rank in ranks])],
        unit="share",
        title="memory, of what tables may fill",
    )
