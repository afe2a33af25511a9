"""An explained recording for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from perfcast.report.tables import (
    new_grid,
    new_table,
    percent,
    plain,
    print_list,
    print_table,
    share,
    shares_table,
    words,
)
from perfcast.traces.explain.breakdown import TimeShare
from perfcast.traces.explain.compare import Change, Comparison, device_parts
from perfcast.traces.explain.recordings import Explanation, RankExplanation
from perfcast.traces.timeline.program import Overhead
from perfcast.units import format_bytes, format_count, format_seconds

MAX_ROWS, MAX_LABEL = 12, 40
#: Columns beside a label, and the least that a label gets.
_NUMBERS_WIDTH, _LEAST_LABEL = 46, 16

#: What the five kinds of host overhead are.
OVERHEADS = {
    Overhead.BETWEEN: "between operators",
    Overhead.BEFORE: "before an operator's first launch",
    Overhead.AFTER: "after its last launch",
    Overhead.CALL: "launches and other calls",
    Overhead.INSIDE: "between launches, operators that launch nothing",
}


def print_explanation(explanation: Explanation, console: Console) -> None:
    """All that a terminal has room for; the first rank stands for those like it."""
    first = explanation.ranks[0]
    console.print(Text(describe_recording(explanation), style="bold"))
    grid = new_grid()
    for name, value in headline(explanation):
        grid.add_row(name, Text(value))
    console.print(grid)
    _print_shares(console, "Where the device's time went", "Part", device_parts(first.breakdown))
    _print_shares(console, "Work by kind", "Kind", first.breakdown.kinds)
    _print_shares(console, "By phase", "Phase", first.breakdown.phases)
    _print_shares(console, "By module", "Module", first.breakdown.modules)
    _print_shares(console, "By marked range", "Range", first.breakdown.ranges)
    _print_shares(console, "By kernel", "Kernel", first.breakdown.kernels)
    _print_overheads(console, first)
    _print_path(console, first)
    _print_collectives(console, explanation)
    _print_ranks(console, explanation)
    if explanation.notes:
        console.print()
        print_list(console, (("·", note) for note in explanation.notes))


def describe_recording(explanation: Explanation) -> str:
    """One line: what was recorded."""
    first = explanation.ranks[0].breakdown
    ranks = len(explanation.ranks)
    who = f"{ranks} ranks" if ranks > 1 else f"rank {first.rank} of {first.world_size}"
    what = first.device or ("a device" if first.on_device else "a processor")
    steps = len(first.step_seconds)
    when = f"{steps} marked step{'s' if steps > 1 else ''}" if steps else "no marked steps"
    return f"{Path(first.source).name}: {who} on {what}, {when}"


def headline(explanation: Explanation) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    first = explanation.ranks[0].breakdown
    time, total = first.device_time, first.device_time.window_seconds or 1.0
    lines = [("Window", format_seconds(time.window_seconds))]
    if first.step_seconds:
        steps = ", ".join(format_seconds(seconds) for _, seconds in first.step_seconds[:6])
        lines.append(("Steps", steps + (", …" if len(first.step_seconds) > 6 else "")))
    waits = "device waits for the host" if first.on_device else "no operator runs"
    lines += [
        ("Busy", f"{format_seconds(time.busy_seconds)}, {percent(time.busy_seconds / total)}"),
        ("Host-bound", f"{percent(time.host_bound_share)} of the window: {waits}"),
    ]
    if time.communication_seconds:
        hidden = time.overlap_seconds / time.communication_seconds
        lines.append(
            (
                "Communication",
                f"{format_seconds(time.communication_seconds)}, {percent(hidden)} of it beside computing",
            )
        )
    if first.num_launches:
        lines.append(("Launches", f"{first.num_launches:,}"))
    return lines


#: Parts of kernels' names that tell nothing.
_NOISE = re.compile(r"^void |at::native::|\(anonymous namespace\)::|c10::|at::cuda::|at_cuda_detail::")


def short_name(name: str) -> str:
    """A kernel's name without its parameters and the namespaces that all share."""
    shortened = _NOISE.sub("", name)
    depth = 0
    for place, letter in enumerate(shortened):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0 and place:
            return shortened[:place].strip()
    return shortened


def _print_shares(console: Console, title: str, label: str, shares: Sequence[TimeShare]) -> None:
    table = shares_table(title, label, "Time")
    table.columns[0].max_width, table.columns[0].no_wrap = MAX_LABEL, False  # it alone gives way
    is_counted = any(item.count > 1 for item in shares)
    if is_counted:
        table.add_column("Count", justify="right", no_wrap=True)
    total = sum(item.seconds for item in shares)
    for item in [item for item in shares if item.seconds > 0][:MAX_ROWS]:
        name = (
            words(item.label)
            if label == "Kind"
            else (short_name(item.label) if item.kind else item.label) or "(none)"
        )
        numbers = [format_seconds(item.seconds), *share(item.seconds, total, console)]
        if is_counted:
            numbers.append(f"{item.count:,}")
        table.add_row(_label(name, label == "Module", console), *plain(*numbers))
    print_table(console, table)


def _label(name: str, is_path: bool, console: Console) -> Text:
    """One line; of a path the end stays, by which it differs from others."""
    room = min(MAX_LABEL, max(console.width - _NUMBERS_WIDTH, _LEAST_LABEL))
    if is_path and len(name) > room:
        name = "…" + name[1 - room :]
    return Text(name, no_wrap=True, overflow="ellipsis")


def _print_overheads(console: Console, rank: RankExplanation) -> None:
    table = new_table("Host overheads, without waiting")
    for name in ("", "What", "Time", "Mean", "Count"):
        table.add_column(name, justify="left" if name in ("", "What") else "right", no_wrap=name != "What")
    for item in rank.overheads:
        table.add_row(
            *plain(
                item.overhead.value, OVERHEADS[item.overhead], format_seconds(item.seconds),
                format_seconds(item.mean_seconds), f"{item.count:,}",
            )
        )  # fmt: skip
    print_table(console, table)


def _print_path(console: Console, rank: RankExplanation) -> None:
    path = rank.critical_path
    title = f"Critical path: {format_seconds(path.seconds)} in {len(path.stretches):,} stretches"
    table = shares_table(title, "Spent on", "Time")
    for name, seconds in path.seconds_by_bound.items():
        table.add_row(*plain(name, format_seconds(seconds), *share(seconds, path.seconds, console)))
    print_table(console, table)


def _print_collectives(console: Console, explanation: Explanation) -> None:
    table = new_table("Collectives, all ranks")
    for name in ("Collective", "Message", "Ranks", "Count", "Time", "Transfer", "Bus bandwidth"):
        table.add_column(name, justify="left" if name == "Collective" else "right", no_wrap=True)
    for item in explanation.collectives[:MAX_ROWS]:
        rate = format_count(item.bus_bytes_per_second, "B/s") if item.bus_bytes else "–"
        table.add_row(
            *plain(
                f"{words(item.name)} {item.dtype}".strip(),
                format_bytes(item.message_bytes) if item.message_bytes else "–",
                item.group_size, f"{item.count:,}", format_seconds(item.seconds),
                format_seconds(item.transfer_seconds), rate,
            )
        )  # fmt: skip
    print_table(console, table)


def _print_ranks(console: Console, explanation: Explanation) -> None:
    imbalance = explanation.imbalance
    if len(imbalance.ranks) < 2:
        return
    table = new_table(f"Ranks; the longest computes {percent(imbalance.compute_imbalance)} above the mean")
    for name in ("Rank", "Step", "Computing", "Communicating", "of it waiting", "Came last"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for load in imbalance.ranks:
        table.add_row(
            *plain(
                load.rank, format_seconds(load.step_seconds), format_seconds(load.compute_seconds),
                format_seconds(load.communication_seconds), format_seconds(load.communication_wait_seconds),
                f"{load.num_last} of {imbalance.num_matched}", "straggler" if load.is_straggler else "",
            )
        )  # fmt: skip
    print_table(console, table)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """What got slower and what got faster, a step."""
    before, after = comparison.before_step_seconds, comparison.after_step_seconds
    ratio = f", × {after / before:.3g}" if before else ""
    console.print()
    console.print(
        Text(f"Compared: {format_seconds(before)} before, {format_seconds(after)} after{ratio}", style="bold")
    )
    for title, changes in (
        ("The device's time", comparison.parts),
        ("Work by kind", comparison.kinds),
        ("By operator", comparison.operators),
        ("By kernel", comparison.kernels),
        ("By module", comparison.modules),
        ("Host overheads", comparison.overheads),
    ):
        _print_changes(console, title, changes)


def _seconds(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "–"


def _print_changes(console: Console, title: str, changes: Sequence[Change]) -> None:
    table = new_table(f"{title}: largest changes, a step")
    table.add_column("", overflow="ellipsis", min_width=_LEAST_LABEL, max_width=MAX_LABEL)
    for name in ("Before", "After", "Change", "Ratio", "Count"):
        table.add_column(name, justify="right", no_wrap=True)
    for change in [c for c in changes if c.seconds][:MAX_ROWS]:
        sign = "+" if change.seconds > 0 else "−"
        counts = f"{change.before_count:g} → {change.after_count:g}"
        name = short_name(change.label) or "(none)"
        table.add_row(
            _label(name, title == "By module", console),
            *plain(
                _seconds(change.before_seconds), _seconds(change.after_seconds),
                f"{sign}{format_seconds(abs(change.seconds))}",
                f"{change.ratio:.3g}" if change.ratio is not None else "new", counts,
            )
        )  # fmt: skip
    print_table(console, table)
