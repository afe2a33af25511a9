"""A choice of sharding for a terminal: the step, devices, tables, published rules beside."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.embedding.lookup import ShardingKind, TablePlacement
from perfcast.report.tables import new_grid, new_table, percent, plain, print_list, print_table, words
from perfcast.search.sharding.on_cluster import ShardingFindings
from perfcast.search.sharding.result import BaselineTime, ShardingChoice, ShardingTime
from perfcast.units import format_bytes, format_count, format_seconds

#: Rows that a terminal shows; JSON has all.
MAX_RANKS = 16
MAX_TABLES = 40


def print_sharding(found: ShardingFindings, console: Console) -> None:
    """Everything that was found, the longest lists cut."""
    choice = found.choice
    console.print(Text(describe_sharding(found), style="bold"))
    console.print()
    console.print(_headline(found))
    print_table(console, baseline_table(choice))
    print_table(console, rank_table(choice))
    print_table(console, placement_table(choice))
    console.print()
    print_list(console, (("·", note) for note in found.assumptions))


def describe_sharding(found: ShardingFindings) -> str:
    """Tables, devices and batch in one line."""
    choice = found.choice
    weights = sum(table.weight_bytes for table in choice.tables)
    return (
        f"{len(choice.tables):,} tables ({format_bytes(weights)}) on {choice.num_ranks:,} × {found.device} "
        f"({found.cluster}), {choice.global_batch_size:,} samples a step"
    )


def _headline(found: ShardingFindings) -> Table:
    choice, time = found.choice, found.choice.time
    grid = new_grid()
    low, high = format_seconds(time.step_seconds_low), format_seconds(time.step_seconds_high)
    grid.add_row("Step", f"{format_seconds(time.step_seconds)} ({low} – {high})")
    grid.add_row(
        "Lookups",
        f"{format_seconds(time.forward_seconds)} forward, {format_seconds(time.backward_seconds)} backward "
        f"with {words(found.optimizer)}; the busiest device has {percent(time.imbalance)} more than the mean",
    )
    grid.add_row("Exchange", describe_exchange(time))
    grid.add_row("Memory", describe_memory(choice))
    grid.add_row("Placement", describe_kinds(choice.placements))
    grid.add_row("Expected to win", describe_gain(choice.baselines))
    grid.add_row("Found from", f"{choice.origin}; {choice.num_rounds} changes; {found.cost_model} prices")
    return grid


def describe_exchange(time: ShardingTime) -> str:
    """Seconds between devices, part by part."""
    parts = (
        ("indices", time.index_seconds),
        ("sums", time.output_seconds),
        ("gradients", time.gradient_seconds),
        ("replicated tables' gradients", time.reduce_seconds),
    )
    named = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts if seconds)
    return f"{format_seconds(time.exchange_seconds)}" + (f": {named}" if named else "")


def describe_memory(choice: ShardingChoice) -> str:
    """Of the fullest device."""
    most = max(rank.memory_bytes for rank in choice.ranks)
    return (
        f"{format_bytes(most)} on the fullest device, of {format_bytes(choice.memory_limit_bytes)} for tables"
    )


def describe_kinds(placements: Sequence[TablePlacement]) -> str:
    """How many tables are sharded which way."""
    counts = {kind: sum(placement.kind is kind for placement in placements) for kind in ShardingKind}
    return ", ".join(f"{count} {words(kind.value)}" for kind, count in counts.items() if count)


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


def baseline_table(choice: ShardingChoice) -> Table:
    """Published rules, the fastest first; those that do not fit last."""
    table = new_table("Published rules")
    table.add_column("Rule", no_wrap=True)
    for name in ("Step", "Longer by", "90 % interval", "Exchange", "Imbalance"):
        table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(choice.baselines, key=lambda one: one.time.step_seconds if one.time else math.inf)
    for one in ordered:
        if one.time is None or one.gain is None or one.gain_low is None or one.gain_high is None:
            table.add_row(*plain(one.name, "no memory", "", "", "", ""))
            continue
        table.add_row(
            *plain(
                one.name, format_seconds(one.time.step_seconds), percent(one.gain),
                f"{percent(one.gain_low)} – {percent(one.gain_high)}",
                format_seconds(one.time.exchange_seconds), percent(one.time.imbalance),
            )
        )  # fmt: skip
    return table


def rank_table(choice: ShardingChoice) -> Table:
    """Devices in order; of many the busiest."""
    ranks = choice.ranks
    title = "Devices"
    if len(ranks) > MAX_RANKS:
        busiest = sorted(ranks, key=lambda rank: -(rank.forward_seconds + rank.backward_seconds))
        ranks = tuple(sorted(busiest[:MAX_RANKS], key=lambda rank: rank.rank))
        title = f"The {MAX_RANKS} busiest of {len(choice.ranks):,} devices"
    table = new_table(title)
    for name in ("Rank", "Tables", "Forward", "Backward", "Sends", "Memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for rank in ranks:
        table.add_row(
            str(rank.rank), str(rank.num_tables), format_seconds(rank.forward_seconds),
            format_seconds(rank.backward_seconds), format_bytes(rank.sent_bytes),
            format_bytes(rank.memory_bytes),
        )  # fmt: skip
    return table


def placement_table(choice: ShardingChoice) -> Table:
    """Tables in order; of many the largest."""
    order = list(range(len(choice.tables)))
    title = "Tables"
    if len(order) > MAX_TABLES:
        order = sorted(order, key=lambda at: -choice.tables[at].weight_bytes)[:MAX_TABLES]
        title = f"The {MAX_TABLES} largest of {len(choice.tables):,} tables"
    table = new_table(title)
    table.add_column("Table", no_wrap=True, overflow="ellipsis", max_width=32)
    for name in ("Rows", "Columns", "Lookups"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Sharding", no_wrap=True)
    table.add_column("Ranks", overflow="fold")
    for at in order:
        one, placement = choice.tables[at], choice.placements[at]
        table.add_row(
            Text(one.name), format_count(one.num_rows), str(one.dim), f"{one.pooling:.3g}",
            words(placement.kind.value), describe_ranks(placement),
        )  # fmt: skip
    return table


def describe_ranks(placement: TablePlacement) -> str:
    """'all', or the ranks in the order of the slices."""
    if placement.kind is ShardingKind.DATA_PARALLEL:
        return "all"
    return " ".join(map(str, placement.ranks))
