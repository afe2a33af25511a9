"""A search for training: the winner, clusters side by side, ranked plans, the front, what was searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.core.forecast.fit import first_said
from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.report.blocks import name_shares, share_table, step_card, throughput_card
from perfcast.report.document import (
    Block,
    Card,
    Cell,
    Column,
    Command,
    Document,
    Fact,
    Items,
    Note,
    Section,
    Table,
    share_of,
    words,
)
from perfcast.report.documents.memory.plan import describe_training
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.search.coordinates import coordinates_figure
from perfcast.report.documents.search.explained import explained_sections, sensitivity_section
from perfcast.report.documents.search.figures import (
    MAX_BARS,
    causes_figure,
    clusters_figure,
    pareto_figure,
)
from perfcast.report.documents.step.plan import CAUSE_WORDS
from perfcast.report.values import Value
from perfcast.searches.ranking.objectives import OBJECTIVES
from perfcast.searches.report.baseline import BaselineRanking
from perfcast.searches.report.clusters import ClusterComparison
from perfcast.searches.report.compose import SearchReport
from perfcast.searches.report.variants import differing_items
from perfcast.searches.result import RankedPlan, SearchResult, Separation
from perfcast.units import HOUR, MEGA, format_duration, format_seconds

#: Settings of folded plans that are named; there may be more.
_MOST_NAMED = 4
#: Plans of the front that a terminal shows.
MAX_FRONT = 8


def document_of(found: SearchReport) -> Document:
    """Everything that was found."""
    result = found.best
    again = Section(title="The best plan again", blocks=(Command(result.command(result.winner)),))
    blocks: list[Block] = [again]
    if len(found.comparison.outcomes) > 1:
        blocks.append(_clusters(found.comparison))
    blocks += [_ranked(result), _pareto(result), _coordinates(result), _causes(result)]
    if found.baseline is not None:
        blocks.append(_baseline(found.baseline))
    blocks += [_front(result), *explained_sections(found)]
    if found.sensitivity is not None:
        blocks.append(sensitivity_section(found.sensitivity))
    blocks.append(_effort(result))
    return Document(
        title=f"{result.model} on {result.num_devices:,} × {result.device} ({result.cluster})",
        verdict=first_said(found.fits),
        lead=_describe_job(result),
        limits=name_shares("Goes to", _causes_of(result.winner)),
        cards=_cards(result),
        facts=_facts(found),
        blocks=tuple(blocks),
        assumptions=result.assumptions,
    )


def _causes_of(plan: RankedPlan) -> dict[str, float]:
    return {CAUSE_WORDS[cause]: seconds for cause, seconds in plan.seconds_by_cause.items()}


def _describe_job(result: SearchResult) -> str:
    """Precision, batch and objective in one line."""
    training = result.training
    return (
        f"train · {training.dtype} · {result.global_batch_size:,} × {result.sequence_length:,} tokens · "
        f"{describe_training(training)} · best by {OBJECTIVES[result.objective].title}"
    )


def _cards(result: SearchResult) -> tuple[Card, ...]:
    winner = result.winner
    found = [
        Card(label="Best plan", value=format_plan(winner.plan), only="terminal"),
        step_card(winner.step_seconds, winner.step_seconds_low, winner.step_seconds_high),
        throughput_card(winner.tokens_per_second, winner.tokens_per_second_per_device, "tokens/s"),
        Card(label="MFU", value=winner.mfu, unit="share"),
        Card(label="Memory", value=winner.device_bytes, unit="B", whole=winner.capacity_bytes),
    ]
    if winner.dollars_per_token is not None:
        price = f"per million tokens, at ${winner.dollars_per_device_hour:g} per device and hour"
        found.append(Card(label="Cost", value=MEGA * winner.dollars_per_token, unit="$", detail=price))
    plans = f"{result.num_valid:,} valid, {result.num_simulated:,} simulated"
    return (*found, Card(label="Plans", value=result.num_plans, unit="number", detail=plans, only="page"))


def _facts(found: SearchReport) -> tuple[Fact, ...]:
    result, winner = found.best, found.best.winner
    facts = [*program_facts(result.program, result.defaults)]
    facts.append(Fact("Best plan", format_plan(winner.plan), only="page"))
    if result.num_steps is not None:
        facts.append(Fact("Training", _describe_training(result, result.num_steps)))
    if winner.joules_per_token is not None:
        kilowatt_hours = MEGA * winner.joules_per_token / (1000 * HOUR)
        facts.append(Fact("Energy", f"{kilowatt_hours:.3g} kWh per million tokens"))
    if found.baseline is not None:
        facts.append(Fact(found.baseline.name, describe_baseline(found.baseline)))
    facts.append(Fact("Searched", describe_effort(result)))
    facts += [
        Fact("", f"{count:,} excluded: {words_}", only="terminal")
        for words_, count in result.excluded.items()
        if count
    ]
    return tuple(facts)


def _describe_training(result: SearchResult, num_steps: int) -> str:
    """How long the whole training takes with the winner, and that its devices are the fewest."""
    winner = result.winner
    seconds = format_duration(num_steps * winner.step_seconds)
    low, high = (format_duration(num_steps * s) for s in (winner.step_seconds_low, winner.step_seconds_high))
    found = f"{seconds} ({low} – {high} with 90 %) for {num_steps:,} steps"
    if result.objective == "devices":
        return f"{found}; {winner.num_devices:,} devices are the fewest that keep the deadline"
    return found


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


def describe_baseline(baseline: BaselineRanking) -> str:
    """What another searcher chooses, and what that is worth."""
    first = baseline.plans[0]
    own = f"chooses {first.degrees}, {format_seconds(first.baseline_seconds)} by its own formulas; "
    if first.plan is None or first.step_seconds is None:
        return f"{own}not possible: {baseline.reason}"
    return f"{own}the best plan with these degrees takes {format_seconds(first.step_seconds)}"


def _plan_columns(plans: Sequence[RankedPlan]) -> tuple[Column, ...]:
    """Of a plan's figures; dollars where there is a price, else joules."""
    has_dollars = any(plan.dollars_per_token is not None for plan in plans)
    cost = Column("$ of a million tokens" if has_dollars else "J of a token", "g", missing="")
    short = Column(cost.heading, "g", short="$/Mtok" if has_dollars else "J/tok", missing="")
    return (
        Column("Step", "s"),
        Column("± 90 %", "share"),
        Column("MFU", "share"),
        Column("Tokens/s a device", "count", short="Tok/s/dev"),
        Column("Memory", "B"),
        Column("Headroom", "B", only="page"),
        short if has_dollars else Column(cost.heading, "g", missing="", only="page"),
    )


def _plan_figures(plan: RankedPlan) -> tuple[Value, ...]:
    half = (plan.step_seconds_high - plan.step_seconds_low) / 2
    return (
        plan.step_seconds,
        share_of(half, plan.step_seconds),
        plan.mfu,
        plan.tokens_per_second_per_device,
        plan.device_bytes,
        plan.headroom_bytes,
        cost_of(plan),
    )


def cost_of(plan: RankedPlan) -> float | None:
    """Dollars of a million tokens, without a price joules of one."""
    return plan.joules_per_token if plan.dollars_per_token is None else MEGA * plan.dollars_per_token


def _clusters(comparison: ClusterComparison) -> Section:
    """The winners of all clusters, the best first."""
    winners = [result.winner for result in comparison.results]
    table = Table(
        columns=(Column("Cluster"), *_plan_columns(winners), Column("Plan")),
        rows=tuple(
            (
                f"{result.cluster}:{result.num_devices}",
                *_plan_figures(result.winner),
                format_plan(result.winner.plan, " "),
            )
            for result in comparison.results
        ),
    )
    failed = Items(tuple((o.asked, o.reason) for o in comparison.outcomes if o.result is None))
    return Section(
        title=f"Clusters by {OBJECTIVES[comparison.objective].title}",
        blocks=(clusters_figure(comparison), table, failed),
    )


def _ranked(result: SearchResult) -> Section:
    unsure = {separation.second for separation in result.separations}
    table = Table(
        columns=(
            Column("#"),
            *_plan_columns(result.ranked),
            Column("Method", only="page"),
            Column("Plan"),
        ),
        rows=tuple(
            (
                Cell(f"{'≈' if place in unsure else ''}{place + 1}", place),
                *_plan_figures(plan),
                words(plan.method),
                describe_alike(plan.plan, [one.plan for one in result.alike(place)]),
            )
            for place, plan in enumerate(result.ranked)
        ),
    )
    blocks = (table, *_separations(result), Note(_unit_note(result), only="page"))
    return Section(title=f"Best plans of each kind on {result.cluster}:{result.num_devices}", blocks=blocks)


def describe_alike(plan: Plan, alike: Sequence[Plan], separator: str = " ") -> str:
    """A plan and how many others cannot be told from it: 'tp=8 mbs=1; and 2 alike: order=tp-cp-pp-dp'."""
    text = format_plan(plan, separator)
    if not alike:
        return text
    items = list(dict.fromkeys(item for other in alike for item in differing_items(plan, other)))
    more = ", …" if len(items) > _MOST_NAMED else ""
    return f"{text}; and {len(alike):,} alike: {', '.join(items[:_MOST_NAMED])}{more}"


def _unit_note(result: SearchResult) -> str:
    if result.winner.dollars_per_token is not None:
        return "$: of a million tokens."
    return "J: joules of a token, of devices and their servers; without --prices there are no dollars."


def _separations(result: SearchResult) -> tuple[Note | Items, ...]:
    """Which plans may be as good as the first, and what would most tell them apart: in a terminal of one."""
    if not result.separations:
        return (Note(describe_sure(result)),)
    telling = (replace(one, measurements=one.measurements[:1]) for one in result.separations)
    lines = tuple(("·", describe_separation(one)) for one in telling)
    return (
        Note(describe_unsure(result)),
        Items(lines[:1], only="terminal"),
        Items(lines, only="page"),
    )


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


def _pareto(result: SearchResult) -> Section:
    note = (
        "Every point is a plan; orange are those that none beats in time, cost and memory headroom at once, "
        "the line those that none beats in time and memory. Hover for plans."
    )
    return Section(
        title="Time and memory of all valid plans", blocks=(pareto_figure(result), Note(note)), only="page"
    )


def _coordinates(result: SearchResult) -> Section:
    note = (
        "A line for each plan, from the slowest (pale) to the fastest (dark) by formula; green is the "
        "winner. Dimensions in which the drawn plans do not differ are left out."
    )
    return Section(
        title="Dimensions of the plans", blocks=(coordinates_figure(result), Note(note)), only="page"
    )


def _causes(result: SearchResult) -> Section:
    names = [f"plan {place}" for place in range(1, len(result.ranked) + 1)][:MAX_BARS]
    figure = causes_figure(result.ranked[:MAX_BARS], names)
    return Section(title="Where the steps of the best plans go", blocks=(figure,), only="page")


def _front(result: SearchResult) -> Section:
    """Plans that none beats in time, cost and headroom at once."""
    step, interval, mfu, rate, memory, headroom, cost = _plan_columns(result.front or result.ranked[:1])
    is_priced = bool(cost.short)
    table = Table(
        columns=(
            step,
            *(Column(one.heading, one.unit, only="page") for one in (interval, mfu, rate, memory)),
            Column(headroom.heading, "B"),
            Column(cost.heading, "g", short=cost.short if is_priced else "J/tok", missing=""),
            Column("Plan"),
        ),
        rows=tuple((*_plan_figures(plan), format_plan(plan.plan, " ")) for plan in result.front),
        things="plans of the front",
        most_rows=MAX_FRONT,
        pick="spread",
    )
    return Section(title="Pareto front: time, cost and memory headroom", blocks=(table,))


def _baseline(baseline: BaselineRanking) -> Section:
    """Another searcher's first plans, beside the best of ours with the same degrees."""
    table = Table(
        columns=(
            Column("#"),
            Column("By its formulas", "s"),
            Column("By ours", "s"),
            Column("Degrees", folds=False),
            Column("Best plan with them", missing="not possible"),
        ),
        rows=tuple(
            (
                place,
                one.baseline_seconds,
                one.step_seconds,
                one.degrees.replace(",", " "),
                None if one.plan is None else format_plan(one.plan, " "),
            )
            for place, one in enumerate(baseline.plans, start=1)
        ),
    )
    return Section(title=f"First of {baseline.num_plans:,} plans by {baseline.name}", blocks=(table,))


def _effort(result: SearchResult) -> Section:
    excluded = tuple((name, count) for name, count in result.excluded.items())
    blocks = [
        share_table("", "Part", dict(result.seconds_by_part)),
        Table(columns=(Column("Excluded by"), Column("Plans", "number")), rows=excluded),
    ]
    return Section(title="What was searched", blocks=tuple(blocks), only="page")
