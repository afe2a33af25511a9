"""A search for inference, for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.plan_text import format_values, stated_values
from perfcast.report.tables import new_grid, new_table, print_list, print_table
from perfcast.search.serving import ServingChoice, ServingReport, ServingResult
from perfcast.units import MEGA, format_bytes, format_count, format_seconds


def print_serving_search(found: ServingReport, console: Console) -> None:
    """The best plan and batch, clusters side by side, the best cluster's plans, assumptions."""
    result = found.results[0]
    console.print(Text(describe_serving_search(result), style="bold"))
    console.print(Text(describe_limits(result)))
    console.print()
    console.print(_headline(result))
    if len(found.results) + len(found.failed) > 1:
        print_table(console, _cluster_table(found))
        print_list(console, found.failed)
    print_table(console, _ranked_table(result))
    console.print()
    print_list(console, (("·", note) for note in result.assumptions))


def describe_serving_search(result: ServingResult) -> str:
    """Model, devices and cluster in one line."""
    return f"{result.model} on {result.num_devices:,} × {result.device} ({result.cluster})"


def describe_limits(result: ServingResult) -> str:
    """Mode, precision, context and limits in one line."""
    request = result.request
    parts = [request.mode, request.dtype, f"{result.context_length:,} tokens of context"]
    if request.max_first_seconds is not None:
        parts.append(f"first token within {format_seconds(request.max_first_seconds)}")
    if request.max_token_seconds is not None:
        parts.append(f"each further one within {format_seconds(request.max_token_seconds)}")
    return " · ".join(parts)


def _headline(result: ServingResult) -> Table:
    best = result.ranked[0]
    grid = new_grid()
    grid.add_row("Best plan", Text(serving_words(best), style="bold"))
    rate = best.tokens_per_second
    each = format_count(rate / result.num_devices)
    grid.add_row("Throughput", f"{format_count(rate)} tokens/s, {each} of one device")
    for name, phase in (("First token", best.point.prefill), ("Each token", best.point.decode)):
        if phase is not None:
            low, high = format_seconds(phase.seconds_low), format_seconds(phase.seconds_high)
            grid.add_row(name, f"{format_seconds(phase.seconds)} ({low} to {high} with 90 %)")
    held, capacity = format_bytes(best.point.memory_bytes), format_bytes(result.capacity_bytes)
    grid.add_row("Memory", f"{held} of {capacity}")
    dollars = result.dollars_per_token(best)
    if dollars is not None:
        grid.add_row("Cost", f"${MEGA * dollars:.3g} per million tokens")
    grid.add_row("Searched", f"{result.num_plans:,} plans, {len(result.points):,} batches of them")
    return grid


def serving_words(choice: ServingChoice) -> str:
    """The plan and its batch: 'tp=8 dp=2, batch 64'."""
    return f"{plan_degrees(choice)}, batch {choice.point.batch_size:,}"


def plan_degrees(choice: ServingChoice) -> str:
    """Degrees alone: micro-batches follow from the batch."""
    follows = ("micro_batch_size", "sequence_parallel")
    stated = {field: value for field, value in stated_values(choice.plan).items() if field not in follows}
    return format_values(stated, " ") or "one device"


_HEADINGS = ("Batch", "First\ntoken", "Each\ntoken", "Tokens/s\na device", "Memory")


def serving_headings(result: ServingResult) -> tuple[str, ...]:
    """Of a row's figures; dollars where there is a price."""
    return _HEADINGS if result.dollars_per_device_hour is None else (*_HEADINGS, "$/Mtok")


def serving_cells(choice: ServingChoice, result: ServingResult) -> list[str]:
    """Texts of one row, by ``serving_headings``."""
    point, dollars = choice.point, result.dollars_per_token(choice)
    cells = [
        f"{point.batch_size:,}",
        "" if point.prefill is None else format_seconds(point.prefill.seconds),
        "" if point.decode is None else format_seconds(point.decode.seconds),
        format_count(choice.tokens_per_second / result.num_devices),
        format_bytes(point.memory_bytes),
    ]
    return cells if dollars is None else [*cells, f"{MEGA * dollars:.3g}"]


def _ranked_table(result: ServingResult) -> Table:
    table = new_table(f"Best plans on {result.cluster}:{result.num_devices}, each with its best batch")
    _add_columns(table, result)
    for choice in result.ranked:
        table.add_row(*serving_cells(choice, result), Text(plan_degrees(choice)))
    return table


def _cluster_table(found: ServingReport) -> Table:
    table = new_table("Clusters, the best first")
    table.add_column("Cluster", overflow="fold")
    _add_columns(table, found.results[0])
    for result in found.results:
        best = result.ranked[0]
        name = Text(f"{result.cluster}:{result.num_devices}")
        table.add_row(name, *serving_cells(best, result), Text(plan_degrees(best)))
    return table


def _add_columns(table: Table, result: ServingResult) -> None:
    for heading in serving_headings(result):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Plan", overflow="fold")
