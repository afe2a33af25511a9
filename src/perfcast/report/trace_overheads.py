"""A profile of host overheads for a terminal."""

from __future__ import annotations

from rich.console import Console

from perfcast.report.tables import new_table, plain, print_table
from perfcast.report.trace_text import OVERHEADS
from perfcast.traces.overheads.profile import OverheadProfile
from perfcast.units import format_seconds


def print_overheads(profile: OverheadProfile, console: Console) -> None:
    """Each kind's mean and spread over all examples, and how many there were."""
    table = new_table(" ".join(("Host overheads", profile.host, profile.framework)).strip())
    for name in ("", "What", "Mean", "Deviation", "Examples", "Keys"):
        table.add_column(name, justify="left" if name in ("", "What") else "right", no_wrap=name != "What")
    for overhead, means in profile.means.items():
        overall = means.get(())
        if overall is not None:
            table.add_row(
                *plain(
                    overhead.value, OVERHEADS[overhead], format_seconds(overall.seconds),
                    format_seconds(overall.deviation_seconds), f"{overall.count:,}", f"{len(means) - 1:,}",
                )
            )  # fmt: skip
    print_table(console, table)
