"""A replay beside its recording, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from perfcast.replay.judge.fidelity import Fidelity, Pair
from perfcast.replay.program.program import ReplayProgram
from perfcast.report.tables import new_grid, new_table, percent, plain, print_list, print_table, words
from perfcast.units import format_bytes, format_count, format_seconds

MAX_ROWS = 15
UNKNOWN = "not told"


def print_fidelity(fidelity: Fidelity, console: Console) -> None:
    """Everything that a terminal has room for."""
    console.print(Text(describe_program(fidelity.program), style="bold"))
    grid = new_grid()
    for name, value in headline(fidelity):
        grid.add_row(name, Text(value))
    console.print(grid)
    _print_pairs(console, "A step", side_by_side(fidelity))
    kinds = [(pair, format_seconds) for pair in fidelity.kinds[:MAX_ROWS]]
    _print_pairs(console, "Time by kind of work (watched)", kinds)
    _print_collectives(console, fidelity)
    _print_left_out(console, fidelity)
    console.print()
    print_list(console, (("·", note) for note in fidelity.notes))


def describe_program(program: ReplayProgram) -> str:
    """One line: what is played."""
    steps = f"{program.num_steps} step{'s' if program.num_steps > 1 else ''}"
    chosen = ", ".join(f"{key} {value}" for key, value in program.selection.items())
    rank = f", rank {program.rank} of {program.world_size}" if program.world_size > 1 else ""
    return f"{Path(program.source).name}{rank}: {len(program.calls)} calls of {steps} ({chosen})"


def headline(fidelity: Fidelity) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    processor, used = fidelity.processor, fidelity.utilisation
    lines = [
        ("Coverage", f"{percent(fidelity.operation_coverage)} of calls{_time_coverage(fidelity)}"),
        (
            "Processor time",
            f"{known(processor.median, format_seconds)} a step "
            f"({known(processor.low, format_seconds)} to {known(processor.high, format_seconds)}), "
            f"{len(fidelity.played.steps.processor_seconds)} repetitions"
            + (", interrupted" if fidelity.played.steps.is_interrupted else ""),
        ),
        ("Host gaps", _gaps(fidelity)),
        ("Memory", f"prepared {fidelity.played.preparation.value}"),
        ("Processors", f"{known(used.process, _count)} busy by the replay"),
        (
            "Power",
            f"processors {known(used.processor_watts, _watts)}, device {known(used.device_watts, _watts)}",
        ),
        ("Device", f"computing {known(used.device, percent)}, memory {known(used.device_memory, percent)}"),
    ]
    if fidelity.num_replaced:
        lines.append(("Stand-ins", f"{fidelity.num_replaced} tensors do not come out as recorded"))
    return lines


def _time_coverage(fidelity: Fidelity) -> str:
    covered = fidelity.time_coverage
    return "" if math.isnan(covered) else f", {percent(covered)} of their recorded time"


def _gaps(fidelity: Fidelity) -> str:
    added = fidelity.played.added_gap_seconds / fidelity.program.num_steps
    kept = f", {format_seconds(added)} a step beside the replay's own" if fidelity.host_gaps != "off" else ""
    return fidelity.host_gaps + kept


def known(value: float, shown: Callable[[float], str]) -> str:
    """A figure, or that the machine does not tell it."""
    return UNKNOWN if math.isnan(value) else shown(value)


def _count(value: float) -> str:
    return f"{value:.2f}"


def _watts(value: float) -> str:
    return f"{value:.0f} W"


def side_by_side(fidelity: Fidelity) -> list[tuple[Pair, Callable[[float], str]]]:
    """The figures of a step with how each is written."""
    return [
        *((pair, format_seconds) for pair in fidelity.step),
        (fidelity.launches, lambda value: f"{value:,.0f}"),
        (fidelity.memory, lambda value: format_bytes(int(value))),
    ]


def _print_pairs(console: Console, title: str, pairs: Sequence[tuple[Pair, Callable[[float], str]]]) -> None:
    table = new_table(title)
    table.add_column("", no_wrap=True)
    for name in ("Recorded", "Replayed", "Difference"):
        table.add_column(name, justify="right", no_wrap=True)
    for pair, shown in pairs:
        table.add_row(
            *plain(words(pair.label), known(pair.recorded, shown), known(pair.replayed, shown), error(pair))
        )
    print_table(console, table)


def error(pair: Pair) -> str:
    """The relative difference in percent, '' where it is not known."""
    value = pair.relative_error
    return "" if math.isnan(value) else f"{100 * value:+.1f} %"


def _print_collectives(console: Console, fidelity: Fidelity) -> None:
    table = new_table("Collectives")
    for name in ("Collective", "Time", "Bus bandwidth", ""):
        table.add_column(name, justify="left" if name in ("Collective", "") else "right", no_wrap=True)
    for one in fidelity.collectives[:MAX_ROWS]:
        bandwidth = known(one.bus_bytes_per_second, lambda value: format_count(value, "B/s"))
        how = "emulated" if one.is_emulated else "asynchronous" if one.is_asynchronous else ""
        table.add_row(*plain(one.name, known(one.median_seconds, format_seconds), bandwidth, how))
    if table.row_count:
        print_table(console, table)


def _print_left_out(console: Console, fidelity: Fidelity) -> None:
    table = new_table("Left out")
    table.add_column("Operator", overflow="ellipsis", max_width=40)
    table.add_column("Calls", justify="right")
    table.add_column("Why", overflow="fold")
    for one in fidelity.left_out[:MAX_ROWS]:
        reason = one.reason + (" (nothing is lost)" if one.is_harmless else "")
        table.add_row(*plain(one.operator, f"{one.count:,}", reason))
    if table.row_count:
        print_table(console, table)
