"""A whole run for a terminal: days, device-hours, energy, dollars, and where the time goes."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perfcast.prediction.run.predict import RunForecast
from perfcast.report.tables import new_grid, percent, plain, print_list, print_table, share, shares_table
from perfcast.units import DAY, HOUR, format_bytes, format_count, format_duration


def print_run(run: RunForecast, console: Console) -> None:
    """The whole run."""
    console.print()
    console.print(Text(describe_run(run), style="bold"))
    grid = new_grid()
    for name, value in run_lines(run):
        grid.add_row(name, Text(value))
    console.print(grid)
    table = shares_table("Where the time of the run goes", "Part", "Time")
    for name, seconds in run_parts(run):
        table.add_row(*plain(name, format_duration(seconds), *share(seconds, run.seconds, console)))
    print_table(console, table)
    console.print()
    print_list(console, (("·", note) for note in run.assumptions))


def describe_run(run: RunForecast) -> str:
    """One line: what is run."""
    return f"{format_count(run.tokens)} tokens in {run.num_steps:,} steps on {run.num_devices:,} devices"


def run_lines(run: RunForecast) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    low, high = format_duration(run.seconds_low), format_duration(run.seconds_high)
    lines = [
        ("Time", f"{format_duration(run.seconds)} ({low} to {high})"),
        ("Device-hours", f"{run.device_seconds / HOUR:,.0f}"),
        ("Goodput", f"{percent(run.goodput)} of the time is steps that count"),
        ("Interruptions", describe_interruptions(run)),
        ("Checkpoints", describe_checkpoints(run)),
    ]
    if run.energy_joules is not None and run.device_watts is not None:
        watts = f"{run.device_watts:,.0f} W a device with its server, while steps run"
        lines.append(("Energy", f"{format_count(run.energy_joules / HOUR, 'Wh')} of the site; {watts}"))
    else:
        lines.append(("Energy", "no rated power of the device is published"))
    price = "no price given (--price)" if run.dollars is None else f"{run.dollars:,.0f} dollars"
    return [*lines, ("Cost", price)]


def run_parts(run: RunForecast) -> list[tuple[str, float]]:
    """Parts of the time; they add up to it."""
    return [
        ("steps that count", run.productive_seconds),
        ("waiting for checkpoints", run.checkpoint_seconds),
        ("work done again", run.lost_seconds),
        ("restarts", run.restart_seconds),
    ]


def describe_interruptions(run: RunForecast) -> str:
    """How many are expected, how far apart."""
    if not run.num_interruptions:
        return "none"
    each = format_duration(run.between_interruptions_seconds)
    return f"{run.num_interruptions:,.1f} expected, one in {each}"


def describe_checkpoints(run: RunForecast) -> str:
    """Size, interval and time of one."""
    saved = run.checkpoints
    written = f"written in {format_duration(saved.write_seconds)}"
    if saved.is_asynchronous:
        written += f" beside the steps, which wait {format_duration(saved.stall_seconds)}"
    every = format_duration(saved.interval_seconds)
    if saved.interval_seconds > DAY:
        every += f" ({saved.count:,.0f} in all)"
    return f"{format_bytes(saved.num_bytes)} every {every}, {written}"
