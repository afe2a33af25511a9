"""Memory under a plan for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perfcast.core.forecast.footprint import PlanMemory, Remedy, StageFootprint, Term
from perfcast.core.plan import Plan
from perfcast.core.plan_text import format_plan
from perfcast.report.tables import new_grid, new_table, print_list, print_table
from perfcast.units import format_bytes, format_count, format_seconds

MAX_STAGES = 8


def print_plan_memory(result: PlanMemory, console: Console) -> None:
    """The verdict, the worst stage's terms with their formulas, the stages, and what would make it fit."""
    console.print(Text(f"{result.model} on {result.plan.world_size} × {result.device_title}", style="bold"))
    console.print(Text(describe_run(result)))
    console.print()
    footprint = result.footprint
    grid = new_grid()
    grid.add_row("Needed", Text(describe_need(result), style="bold" if result.fits else "bold red"))
    grid.add_row("Allocated", describe_allocated(result))
    grid.add_row("Reserved", f"{format_bytes(footprint.reserved_bytes)} by the caching allocator")
    grid.add_row("Context", f"{format_bytes(footprint.context_bytes)} of the driver and communicators")
    grid.add_row("Parameters", format_count(result.parameter_count))
    console.print(grid)
    stage = footprint.peak_stage
    table = new_table(f"Stage {stage.stage} at its peak ({stage.peak.name})")
    for heading, justify in (("Term", "left"), ("Bytes", "right"), ("Formula", "left")):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for term in sorted_terms(stage):
        table.add_row(term.name, format_bytes(term.num_bytes), Text(term.formula, style="dim"))
    print_table(console, table)
    if len(footprint.stages) > 1:
        _print_stages(result, console)
    if result.step_seconds is not None:
        _print_remedies(result, console)
    console.print()
    print_list(console, (("·", note) for note in footprint.assumptions))


def describe_run(result: PlanMemory) -> str:
    """Mode, precision, batch and plan in one line."""
    plan = result.plan
    what = f"{result.mode} · {result.dtype} · {plan.global_batch_size} × {result.sequence_length} tokens"
    if result.training is not None:
        what += f" · {result.training.optimizer} · {result.training.framework}"
    return f"{what} · {describe_plan(plan)}"


def describe_plan(plan: Plan) -> str:
    """The plan as every option takes it, and what the batch makes of it."""
    many = "es" if plan.num_micro_batches > 1 else ""
    return f"{format_plan(plan)} · {plan.num_micro_batches} micro-batch{many}"


def describe_need(result: PlanMemory) -> str:
    """Whether it fits, in a sentence."""
    need, capacity = format_bytes(result.footprint.device_bytes), format_bytes(result.capacity_bytes)
    return f"{need} of {capacity}: {'fits' if result.fits else 'does not fit'}"


def describe_allocated(result: PlanMemory) -> str:
    """The allocated peak with its interval."""
    footprint = result.footprint
    low, high = format_bytes(footprint.peak_bytes_low), format_bytes(footprint.peak_bytes_high)
    return f"{format_bytes(footprint.peak_bytes)} at the peak ({low} to {high} with 90 %)"


def sorted_terms(stage: StageFootprint) -> list[Term]:
    """Terms of the peak, largest first."""
    return sorted(stage.peak.terms, key=lambda term: -term.num_bytes)


def describe_change(remedy: Remedy) -> str:
    """What is changed, in words."""
    return ", ".join(remedy.changes)


def _print_stages(result: PlanMemory, console: Console) -> None:
    table = new_table("Stages")
    for heading in ("Stage", "Allocated", "At"):
        table.add_column(heading, justify="right" if heading == "Allocated" else "left")
    stages = result.footprint.stages
    for stage in stages[:MAX_STAGES]:
        table.add_row(str(stage.stage), format_bytes(stage.peak.num_bytes), stage.peak.name)
    if len(stages) > MAX_STAGES:
        last = stages[-1]
        table.add_row("…")
        table.add_row(str(last.stage), format_bytes(last.peak.num_bytes), last.peak.name)
    print_table(console, table)


def _print_remedies(result: PlanMemory, console: Console) -> None:
    step = result.step_seconds or 0.0
    table = new_table("What would make it fit" if not result.fits else "What would lower it")
    for heading, justify in (
        ("Change", "left"),
        ("Needs", "right"),
        ("", "left"),
        ("Costs", "right"),
        ("By", "left"),
    ):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for remedy in result.remedies:
        cost = f"{100 * remedy.extra_seconds / step:+.1f} %" if step else ""
        table.add_row(
            describe_change(remedy),
            format_bytes(remedy.device_bytes),
            Text("fits", style="green") if remedy.fits else Text("no", style="red"),
            cost,
            Text("; ".join(remedy.reasons[:2]), style="dim"),
        )
    print_table(console, table)
    console.print(
        Text(
            f"of a step of roughly {format_seconds(step)}: products at half the peak, links at 0.8 of "
            "theirs, nothing overlapped",
            style="dim",
        )
    )
