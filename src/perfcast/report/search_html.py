"""A search as one HTML file: the winner, the front, dimensions, where steps and memory go, tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from perfcast.core.plan_text import format_plan
from perfcast.report.documents.plan_step import CAUSE_WORDS
from perfcast.report.html import Card, Cell, Section, cards, figure_html, page, share, table
from perfcast.report.search_coordinates import plot_coordinates
from perfcast.report.search_explain_text import (
    describe_difference,
    describe_overfull,
    describe_skipped,
    sensitivity_cells,
)
from perfcast.report.search_figures import (
    MAX_BARS,
    plot_categories,
    plot_causes,
    plot_clusters,
    plot_pareto,
    plot_sensitivity,
)
from perfcast.report.search_text import (
    cost_cell,
    describe_baseline,
    describe_effort,
    describe_interval,
    describe_job,
    describe_search,
    describe_separation,
    describe_sure,
    describe_unsure,
)
from perfcast.report.tables import percent, words
from perfcast.search.ranking.objectives import OBJECTIVES
from perfcast.search.report.baseline import BaselineRanking
from perfcast.search.report.clusters import ClusterComparison
from perfcast.search.report.compose import SearchReport
from perfcast.search.report.explain import Change, Difference
from perfcast.search.report.sensitivity import Sensitivity
from perfcast.search.result import RankedPlan, SearchResult
from perfcast.units import MEGA, format_bytes, format_count, format_seconds


def render_search_html(found: SearchReport) -> str:
    """The whole report as one page."""
    result = found.best
    lead = f'<p class="lead">{escape(describe_job(result))}</p>{cards(_headline(result))}'
    sections = [Section("", lead + _note(f"Best plan: {format_plan(result.winner.plan)}"))]
    if len(found.comparison.outcomes) > 1:
        sections.append(Section("Clusters side by side", _clusters(found.comparison)))
    names = [f"plan {place}" for place in range(1, len(result.ranked) + 1)][:MAX_BARS]
    causes = figure_html(plot_causes(result.ranked[:MAX_BARS], names), "causes")
    sections += [
        Section(f"Best plans on {result.cluster}:{result.num_devices}", _ranked(result) + _unsure(result)),
        Section("Time and memory of all valid plans", _pareto(result)),
        Section("Dimensions of the plans", _coordinates(result)),
        Section("Where the steps of the best plans go", causes),
        Section("Winner and named plans", _explained(found)),
    ]
    sections += [
        Section(f"From {d.first.label} to {d.second.label}", _difference(d)) for d in found.differences
    ]
    if found.sensitivity is not None:
        sections.append(Section("How the winner changes", _sensitivity(found.sensitivity)))
    if found.baseline is not None:
        sections.append(Section(f"Choice of {found.baseline.name}", _baseline(found.baseline)))
    sections.append(Section("Pareto front", _plans(result.front)))
    sections.append(Section("What was searched", _effort(result)))
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.assumptions)
    sections.append(Section("Assumptions", f"<ul>{notes}</ul>"))
    return page(f"Search: {describe_search(result)}", sections)


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _headline(result: SearchResult) -> list[Card]:
    winner = result.winner
    each = format_count(winner.tokens_per_second_per_device)
    found = [
        Card("Step", format_seconds(winner.step_seconds), describe_interval(winner)),
        Card("Tokens per second", format_count(winner.tokens_per_second), f"{each} of one device"),
        Card("MFU", percent(winner.mfu), f"best by {OBJECTIVES[result.objective].title}"),
        Card(
            "Memory of a device", format_bytes(winner.device_bytes),
            f"of {format_bytes(winner.capacity_bytes)}",
        ),
    ]  # fmt: skip
    if winner.dollars_per_token is not None:
        price = f"at ${winner.dollars_per_device_hour:g} per device and hour"
        found.append(Card("Cost of a million tokens", f"${MEGA * winner.dollars_per_token:.3g}", price))
    plans = f"{result.num_valid:,} valid, {result.num_simulated:,} simulated"
    return [*found, Card("Plans", f"{result.num_plans:,}", plans)]


def _clusters(comparison: ClusterComparison) -> str:
    rows = [
        (
            Cell(f"{result.cluster}:{result.num_devices}"),
            *_figures(result.winner),
            Cell(format_plan(result.winner.plan, " ")),
        )
        for result in comparison.results
    ]
    headings = ("Cluster", *_HEADINGS, "Plan")
    failed = [outcome for outcome in comparison.outcomes if outcome.result is None]
    notes = "".join(_note(f"{outcome.asked}: {outcome.reason}") for outcome in failed)
    title = _note(f"By {OBJECTIVES[comparison.objective].title}:")
    return title + figure_html(plot_clusters(comparison), "clusters") + table(headings, rows) + notes


_HEADINGS = ("Step", "± 90 %", "MFU", "Tokens/s a device", "Memory", "Headroom", "$ or J")


def _figures(plan: RankedPlan) -> list[Cell]:
    half = (plan.step_seconds_high - plan.step_seconds_low) / 2
    rate, dollars = plan.tokens_per_second_per_device, plan.dollars_per_token
    return [
        Cell(format_seconds(plan.step_seconds), plan.step_seconds),
        share(half, plan.step_seconds),
        share(plan.mfu, 1.0),
        Cell(format_count(rate), rate),
        Cell(format_bytes(plan.device_bytes), plan.device_bytes),
        Cell(format_bytes(plan.headroom_bytes), plan.headroom_bytes),
        Cell(cost_cell(plan), dollars if dollars is not None else plan.joules_per_token or 0.0),
    ]


def _ranked(result: SearchResult) -> str:
    unsure = {separation.second for separation in result.separations}
    rows = [
        (
            Cell(f"{'≈ ' if place in unsure else ''}{place + 1}", place),
            *_figures(plan),
            Cell(plan.method.replace("_", " ")),
            Cell(format_plan(plan.plan, " ")),
        )
        for place, plan in enumerate(result.ranked)
    ]
    return table(("#", *_HEADINGS, "Method", "Plan"), rows) + _unit_note(result)


def _unit_note(result: SearchResult) -> str:
    if result.winner.dollars_per_token is not None:
        return _note("$: of a million tokens.")
    return _note("J: joules of a token, of devices and their servers; without --prices there are no dollars.")


def _unsure(result: SearchResult) -> str:
    if not result.separations:
        return _note(describe_sure(result))
    lines = "".join(f"<li>{escape(describe_separation(s))}</li>" for s in result.separations)
    return f'<p class="note">{escape(describe_unsure(result))}</p><ul class="note">{lines}</ul>'


def _pareto(result: SearchResult) -> str:
    note = (
        "Every point is a plan; orange are those that none beats in time, cost and memory headroom at once, "
        "the line those that none beats in time and memory. Hover for plans."
    )
    return figure_html(plot_pareto(result), "pareto") + _note(note)


def _coordinates(result: SearchResult) -> str:
    note = (
        "A line for each plan, from the slowest (pale) to the fastest (dark) by formula; green is the "
        "winner. Dimensions in which the drawn plans do not differ are left out."
    )
    return figure_html(plot_coordinates(result), "coordinates") + _note(note)


def _plans(plans: Sequence[RankedPlan]) -> str:
    rows = [(*_figures(plan), Cell(format_plan(plan.plan, " "))) for plan in plans]
    return table((*_HEADINGS, "Plan"), rows)


def _explained(found: SearchReport) -> str:
    explanations = found.explanations
    overfull = "".join(_note(note) for note in map(describe_overfull, explanations) if note)
    skipped = overfull + "".join(_note(describe_skipped(*pair)) for pair in found.skipped)
    labels = [explanation.label for explanation in explanations]
    first = explanations[0]
    causes = dict.fromkeys(cause for e in explanations for cause in e.seconds_by_cause)
    time_rows = [
        (Cell(CAUSE_WORDS[cause]), *(_seconds(e.seconds_by_cause.get(cause, 0.0)) for e in explanations))
        for cause in sorted(causes, key=lambda cause: -first.seconds_by_cause.get(cause, 0.0))
    ]
    names = dict.fromkeys(name for e in explanations for name in e.bytes_by_category)
    memory_rows = [
        (Cell(words(name)), *(_bytes(e.bytes_by_category.get(name, 0)) for e in explanations))
        for name in sorted(names, key=lambda name: -first.bytes_by_category.get(name, 0))
    ]
    memory = figure_html(plot_categories(explanations), "categories") if names else ""
    categories = table(("Category", *labels), memory_rows) if names else ""
    return table(("Cause", *labels), time_rows) + memory + categories + skipped


def _seconds(seconds: float) -> Cell:
    return Cell(format_seconds(seconds) if seconds > 0 else "–", seconds)


def _bytes(num_bytes: int) -> Cell:
    return Cell(format_bytes(num_bytes) if num_bytes > 0 else "–", num_bytes)


def _difference(difference: Difference) -> str:
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in difference.sentences)
    rows = [_change(change) for change in difference.causes]
    headings = ("Cause", difference.first.label, difference.second.label, "Difference", "Depends on")
    return f"{_note(describe_difference(difference))}<ul>{sentences}</ul>{table(headings, rows)}"


def _change(change: Change) -> tuple[Cell, ...]:
    sign, amount = "+" if change.difference >= 0 else "−", format_seconds(abs(change.difference))
    return (
        Cell(CAUSE_WORDS[change.name]),
        _seconds(change.before),
        _seconds(change.after),
        Cell("–" if amount.startswith("0.00") else f"{sign}{amount}", change.difference),
        Cell(", ".join(change.because)),
    )


def _baseline(baseline: BaselineRanking) -> str:
    rows = [
        (
            Cell(f"{place}", place),
            Cell(format_seconds(one.baseline_seconds), one.baseline_seconds),
            _seconds(one.step_seconds or 0.0),
            Cell(one.degrees.replace(",", " ")),
            Cell("not possible" if one.plan is None else format_plan(one.plan, " ")),
        )
        for place, one in enumerate(baseline.plans, start=1)
    ]
    headings = ("#", "By its formulas", "By ours", "Degrees", "Best plan with them")
    return _note(f"{baseline.name} {describe_baseline(baseline)}.") + table(headings, rows)


def _sensitivity(found: Sensitivity) -> str:
    names = dict.fromkeys(point.condition.name for point in found.points)
    figures = "".join(
        figure_html(plot_sensitivity(found, name), f"sensitivity-{at}") for at, name in enumerate(names)
    )
    rows = [[Cell(text) for text in sensitivity_cells(point)] for point in found.points]
    note = (
        f"Closed forms. Network: {found.network}. "
        "Kept: the step with the winner as it is, over the best one's."
    )
    return figures + table(("What", "Factor", "Step", "Kept", "Change of plan"), rows) + _note(note)


def _effort(result: SearchResult) -> str:
    parts = [
        (Cell(part), Cell(format_seconds(seconds), seconds))
        for part, seconds in result.seconds_by_part.items()
    ]
    removed = [(Cell(name), Cell(f"{count:,}", count)) for name, count in result.excluded.items()]
    tables = (table(("Part", "Time"), parts) if parts else "") + (
        table(("Excluded by", "Plans"), removed) if removed else ""
    )
    return _note(describe_effort(result)) + tables
