"""A search for a terminal: the ranked plans, what cannot be told apart, the front, clusters side by side."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.plan_text import format_plan
from perfcast.report.tables import new_grid, new_table, percent, print_list, print_table
from perfcast.search.ranking.objectives import OBJECTIVES
from perfcast.search.report.baseline import BaselineRanking
from perfcast.search.report.clusters import ClusterComparison
from perfcast.search.report.compose import SearchReport
from perfcast.search.result import RankedPlan, SearchResult, Separation
from perfcast.units import HOUR, MEGA, format_bytes, format_count, format_duration, format_seconds

#: Plans of the front that a terminal shows.
MAX_FRONT = 8


def print_search(found: SearchReport, console: Console) -> None:
    """The winner, clusters side by side, the best cluster's plans, explanations, sensitivity, assumptions."""
    from perfcast.report.search_explain_text import print_explanations, print_sensitivity

    result = found.best
    console.print(Text(describe_search(result), style="bold"))
    console.print(Text(describe_job(result)))
    console.print()
    console.print(_headline(found))
    if len(found.comparison.outcomes) > 1:
        print_table(console, cluster_table(found.comparison))
        print_list(console, ((o.asked, o.reason) for o in found.comparison.outcomes if o.result is None))
    print_table(console, ranked_table(result))
    _print_separations(result, console)
    if found.baseline is not None:
        print_table(console, baseline_table(found.baseline))
    print_table(console, front_table(result))
    print_explanations(found, console)
    if found.sensitivity is not None:
        print_sensitivity(found.sensitivity, console)
    console.print()
    print_list(console, (("·", note) for note in result.assumptions))


def describe_search(result: SearchResult) -> str:
    """Model, devices and cluster in one line."""
    return f"{result.model} on {result.num_devices:,} × {result.device} ({result.cluster})"


def describe_job(result: SearchResult) -> str:
    """Precision, batch and objective in one line."""
    training = result.training
    return (
        f"train · {training.dtype} · {result.global_batch_size:,} × {result.sequence_length:,} tokens · "
        f"{training.optimizer} · {training.framework} · best by {OBJECTIVES[result.objective].title}"
    )


def describe_effort(result: SearchResult) -> str:
    """How much was searched in how long."""
    seconds = sum(result.seconds_by_part.values())
    parts = [
        f"{result.num_plans:,} plans",
        f"{result.num_valid:,} valid",
        f"{result.num_operations:,} different operations priced",
        f"{result.num_simulated:,} plans simulated",
    ]
    took = f", in {format_seconds(seconds)}" if seconds else ""
    return ", ".join(parts) + took


def _headline(found: SearchReport) -> Table:
    result, winner = found.best, found.best.winner
    grid = new_grid()
    grid.add_row("Best plan", Text(format_plan(winner.plan), style="bold"))
    grid.add_row("Step", f"{format_seconds(winner.step_seconds)} ({describe_interval(winner)})")
    each = format_count(winner.tokens_per_second_per_device)
    grid.add_row("Throughput", f"{format_count(winner.tokens_per_second)} tokens/s, {each} of one device")
    grid.add_row("MFU", percent(winner.mfu))
    grid.add_row("Memory", describe_memory(winner))
    if result.num_steps is not None:
        grid.add_row("Training", describe_training(result))
    if winner.dollars_per_token is not None:
        grid.add_row("Cost", f"${MEGA * winner.dollars_per_token:.3g} per million tokens")
    if winner.joules_per_token is not None:
        grid.add_row("Energy", f"{MEGA * winner.joules_per_token / (1000 * HOUR):.3g} kWh per million tokens")
    if found.baseline is not None:
        grid.add_row(found.baseline.name, Text(describe_baseline(found.baseline)))
    grid.add_row("Searched", describe_effort(result))
    for words, count in result.excluded.items():
        if count:
            grid.add_row("", Text(f"{count:,} excluded: {words}", style="dim"))
    return grid


def describe_training(result: SearchResult) -> str:
    """How long the whole training takes with the winner, and that its devices are the fewest."""
    steps, winner = result.num_steps or 0, result.winner
    seconds = format_duration(steps * winner.step_seconds)
    low, high = (format_duration(steps * s) for s in (winner.step_seconds_low, winner.step_seconds_high))
    found = f"{seconds} ({low} to {high} with 90 %) for {steps:,} steps"
    if result.objective == "devices":
        return f"{found}; {winner.num_devices:,} devices are the fewest that keep the deadline"
    return found


def describe_baseline(baseline: BaselineRanking) -> str:
    """What another searcher chooses, and what that is worth."""
    first = baseline.plans[0]
    own = f"chooses {first.degrees}, {format_seconds(first.baseline_seconds)} by its own formulas; "
    if first.plan is None or first.step_seconds is None:
        return f"{own}not possible: {baseline.reason}"
    return f"{own}the best plan with these degrees takes {format_seconds(first.step_seconds)}"


def baseline_table(baseline: BaselineRanking) -> Table:
    """Another searcher's first plans, beside the best of ours with the same degrees."""
    table = new_table(f"First of {baseline.num_plans:,} plans by {baseline.name}")
    for heading in ("#", "By its formulas", "By ours"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Degrees", no_wrap=True)
    table.add_column("Best plan with them", overflow="fold")
    for place, one in enumerate(baseline.plans, start=1):
        ours = "–" if one.step_seconds is None else format_seconds(one.step_seconds)
        plan = "not possible" if one.plan is None else format_plan(one.plan, " ")
        table.add_row(
            f"{place}", format_seconds(one.baseline_seconds), ours, one.degrees.replace(",", " "), Text(plan)
        )
    return table


def describe_interval(plan: RankedPlan) -> str:
    """The 90 % interval of a step."""
    low, high = format_seconds(plan.step_seconds_low), format_seconds(plan.step_seconds_high)
    return f"{low} to {high} with 90 %"


def describe_memory(plan: RankedPlan) -> str:
    """What a device needs of what it has."""
    return f"{format_bytes(plan.device_bytes)} of {format_bytes(plan.capacity_bytes)}"


def describe_value(plan: RankedPlan, objective: str) -> str:
    """The objective's figure of a plan with its unit."""
    return format_value(plan.value, objective)


def format_value(value: float, objective: str) -> str:
    """A figure of an objective with its unit."""
    if objective == "tokens-per-second":
        return f"{format_count(value)} tokens/s"
    if objective == "dollars-per-token":
        return f"${MEGA * value:.3g} per million tokens"
    if OBJECTIVES[objective].needs_watts:
        return f"{value:.3g} J per token"
    if objective == "time-to-train":
        return format_duration(value)
    if objective == "devices":
        return f"{value:,.0f} devices"
    return format_seconds(value)


def ranked_table(result: SearchResult) -> Table:
    """The best plans."""
    with_dollars = result.winner.dollars_per_token is not None
    table = new_table(f"Best plans on {result.cluster}:{result.num_devices}")
    for heading in (
        "#",
        "Step",
        "± 90 %",
        "MFU",
        "Tok/s/dev",
        "Memory",
        *(["$/Mtok"] if with_dollars else []),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Plan", overflow="fold")
    unsure = {separation.second for separation in result.separations}
    for place, plan in enumerate(result.ranked):
        mark = "≈" if place in unsure else ""
        table.add_row(f"{mark}{place + 1}", *plan_cells(plan), Text(format_plan(plan.plan, " ")))
    return table


def plan_cells(plan: RankedPlan) -> list[str]:
    """Step, interval, MFU, rate, memory, and dollars where there is a price."""
    half = (plan.step_seconds_high - plan.step_seconds_low) / 2
    cells = [
        format_seconds(plan.step_seconds),
        percent(half / plan.step_seconds),
        percent(plan.mfu),
        format_count(plan.tokens_per_second_per_device),
        format_bytes(plan.device_bytes),
    ]
    dollars = plan.dollars_per_token
    return cells if dollars is None else [*cells, f"{MEGA * dollars:.3g}"]


def _print_separations(result: SearchResult, console: Console) -> None:
    if not result.separations:
        console.print(Text(describe_sure(result), style="dim"))
        return
    console.print(Text(describe_unsure(result)))
    print_list(console, (("·", describe_separation(s)) for s in result.separations))


def describe_sure(result: SearchResult) -> str:
    """Why no plan stands beside the winner as not distinguishable."""
    if not result.num_simulated:
        return "Closed forms only: simulated plans would say which cannot be told from the first."
    return "The winner differs from all others shown by more than the interval of the difference."


def describe_unsure(result: SearchResult) -> str:
    """Which plans cannot be told from the winner."""
    places = [str(separation.second + 1) for separation in result.separations]
    which = places[0] if len(places) == 1 else f"{', '.join(places[:-1])} and {places[-1]}"
    return f"≈ not distinguishable from plan 1 within the interval: {which}. What would separate them:"


def describe_separation(separation: Separation) -> str:
    """A pair, the difference with its interval, and what to measure."""
    low, high = separation.difference_seconds_low, separation.difference_seconds_high
    measure = "; ".join(separation.measurements) or "a step of each"
    difference = separation.difference_seconds
    middle = format_seconds(difference) if difference else "no difference"
    return (
        f"plan {separation.second + 1} − plan {separation.first + 1}: "
        f"{middle} ({format_seconds(low)} to {format_seconds(high)}); measure {measure}"
    )


def front_table(result: SearchResult) -> Table:
    """Plans that none beats in time, cost and headroom at once."""
    table = new_table("Pareto front: time, cost and memory headroom")
    headings = ("Step", "Headroom", "$/Mtok" if result.winner.dollars_per_token is not None else "J/tok")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Plan", overflow="fold")
    for plan in _spread(result.front):
        table.add_row(
            format_seconds(plan.step_seconds), format_bytes(plan.headroom_bytes), cost_cell(plan),
            Text(format_plan(plan.plan, " ")),
        )  # fmt: skip
    return table


def cost_cell(plan: RankedPlan) -> str:
    """Dollars of a million tokens, without a price joules of one."""
    if plan.dollars_per_token is not None:
        return f"{MEGA * plan.dollars_per_token:.3g}"
    return "" if plan.joules_per_token is None else f"{plan.joules_per_token:.3g}"


def _spread(front: tuple[RankedPlan, ...]) -> list[RankedPlan]:
    """All of a few; of more, ``MAX_FRONT`` spread from the fastest to the roomiest."""
    if len(front) <= MAX_FRONT:
        return list(front)
    last = len(front) - 1
    return [front[round(at * last / (MAX_FRONT - 1))] for at in range(MAX_FRONT)]


def cluster_table(comparison: ClusterComparison) -> Table:
    """The winners of all clusters, the best first."""
    table = new_table(f"Clusters by {OBJECTIVES[comparison.objective].title}")
    table.add_column("Cluster", overflow="fold")
    with_dollars = any(result.winner.dollars_per_token is not None for result in comparison.results)
    for heading in ("Step", "± 90 %", "MFU", "Tok/s/dev", "Memory", *(["$/Mtok"] if with_dollars else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Plan", overflow="fold")
    for result in comparison.results:
        cells = plan_cells(result.winner)
        option = Text(format_plan(result.winner.plan, " "))
        table.add_row(Text(f"{result.cluster}:{result.num_devices}"), *cells, option)
    return table
