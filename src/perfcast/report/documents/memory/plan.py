"""The memory of a plan, in closed form: all stages, the worst term by term, and what would make it fit."""

from __future__ import annotations

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.footprint import PlanMemory, StageFootprint, Term
from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.tuning.text import describe_tuning
from perfcast.report import palette
from perfcast.report.blocks import name_shares, share_table, stacked_bars
from perfcast.report.document import Block, Card, Column, Document, Note, Section, Table, share_of, words
from perfcast.report.documents.program import program_facts
from perfcast.report.figure import Figure, Rule
from perfcast.units import format_seconds

MAX_STAGES = 10


def document_of(result: PlanMemory) -> Document:
    """The verdict, the worst stage's terms with their formulas, the stages, and what would make it fit."""
    blocks: list[Block] = [_terms(result.footprint.peak_stage), _stages(result)]
    if result.footprint.layer_terms:
        blocks.append(_layer(result))
    if result.timed_on:
        blocks.append(_recommendations(result))
    return Document(
        title=f"Memory of {result.model} on {result.plan.world_size} × {result.device_title}",
        verdict=first_said((result.fit,)),
        lead=_describe(result),
        limits=name_shares(
            "Held at the peak:",
            {term.name: term.num_bytes for term in result.footprint.peak_stage.peak.terms},
        ),
        cards=_cards(result),
        facts=program_facts(result.program, result.defaults),
        blocks=tuple(blocks),
        assumptions=result.footprint.assumptions,
    )


def _describe(result: PlanMemory) -> str:
    """Mode, precision, batch and plan in one line."""
    plan = result.plan
    what = f"{result.mode} · {result.dtype} · {plan.global_batch_size} × {result.sequence_length} tokens"
    if result.training is not None:
        what += f" · {describe_training(result.training)}"
    return f"{what} · {describe_plan(plan)}"


def describe_training(training: Training) -> str:
    """Optimizer, what trains where that is not everything, and whose program."""
    tuned = describe_tuning(training.tuning)
    return " · ".join(filter(None, (training.optimizer, tuned, training.framework)))


def describe_plan(plan: Plan) -> str:
    """The plan as options take it, and its micro-batches."""
    many = "es" if plan.num_micro_batches > 1 else ""
    return f"{format_plan(plan)} · {plan.num_micro_batches} micro-batch{many}"


def need_card(result: PlanMemory, label: str) -> Card:
    """What a device needs of what it has."""
    return Card(
        label=label,
        value=result.footprint.device_bytes,
        unit="B",
        whole=result.capacity_bytes,
        detail="fits" if result.fits else "does not fit",
        severity="plain" if result.fits else "alarm",
    )


def _cards(result: PlanMemory) -> tuple[Card, ...]:
    footprint = result.footprint
    return (
        need_card(result, "Needed"),
        Card(
            label="Allocated",
            value=footprint.peak_bytes,
            unit="B",
            low=footprint.peak_bytes_low,
            high=footprint.peak_bytes_high,
            confidence=0.9,
            detail="at the peak",
        ),
        Card(label="Reserved", value=footprint.reserved_bytes, unit="B", detail="by the caching allocator"),
        Card(label="Context", value=footprint.context_bytes, unit="B", detail="driver and communicators"),
        Card(
            label="Parameters",
            value=result.parameter_count,
            unit="count",
            detail=f"on {result.plan.world_size} devices",
        ),
    )


def _terms(stage: StageFootprint) -> Section:
    table = Table(
        columns=(
            Column("Term"),
            Column("Bytes", "B"),
            Column("Share", "share", only="page"),
            Column("Category", only="page"),
            Column("Formula"),
            Column("Source", only="page"),
        ),
        rows=tuple(
            (
                term.name,
                term.num_bytes,
                share_of(term.num_bytes, stage.peak.num_bytes),
                words(term.category),
                term.formula,
                term.source,
            )
            for term in sorted_terms(stage)
        ),
    )
    return Section(title=f"Stage {stage.stage} at its peak ({stage.peak.name})", blocks=(table,))


def sorted_terms(stage: StageFootprint) -> list[Term]:
    """Terms of the peak, largest first."""
    return sorted(stage.peak.terms, key=lambda term: -term.num_bytes)


def _stages(result: PlanMemory) -> Section:
    stages = result.footprint.stages
    table = Table(
        columns=(Column("Stage"), Column("Allocated", "B"), Column("At")),
        rows=tuple((stage.stage, stage.peak.num_bytes, stage.peak.name) for stage in stages),
        things="stages",
        most_rows=MAX_STAGES,
        pick="ends",
    )
    return Section(
        title="Stages at their peaks",
        blocks=(stages_figure(result), table) if len(stages) > 1 else (stages_figure(result),),
    )


def stages_figure(result: PlanMemory) -> Figure:
    """A bar for each stage, stacked by category, with the device's memory as a line."""
    stages = result.footprint.stages
    held = [
        (category, [_held(stage, category) for stage in stages])
        for category in Category.ALL
        if any(_held(stage, category) for stage in stages)
    ]
    figure = stacked_bars(
        "stages",
        [f"stage {stage.stage}" for stage in stages],
        [(words(category), palette.CATEGORIES[category], amounts) for category, amounts in held],
        unit="B",
        title="allocated",
    )
    limit = result.capacity_bytes - result.footprint.context_bytes
    return figure.with_rules(Rule(x=limit, label="device without context", is_alarm=True))


def _held(stage: StageFootprint, category: str) -> int:
    return sum(term.num_bytes for term in stage.peak.terms if term.category == category)


def _layer(result: PlanMemory) -> Section:
    terms = sorted(result.footprint.layer_terms, key=lambda term: -term.num_bytes)
    table = share_table(
        "", "Tensor", [(term.name, term.num_bytes) for term in terms], unit="B", amount="Bytes"
    )
    return Section(title="What one layer keeps for its backward", blocks=(table,), only="page")


def _recommendations(result: PlanMemory) -> Section:
    step_seconds = result.step_seconds
    table = Table(
        columns=(
            Column("Change"),
            Column("Needs", "B"),
            Column("", folds=False),
            Column("Costs", "+share"),
            Column("Then", "tokens/s"),
            Column("By"),
        ),
        rows=tuple(
            (
                describe_change(recommendation),
                recommendation.device_bytes,
                "fits" if recommendation.fits else "does not fit",
                None
                if recommendation.extra_seconds is None or not step_seconds
                else share_of(recommendation.extra_seconds, step_seconds),
                recommendation.tokens_per_second,
                "; ".join(filter(None, (recommendation.caveat, *recommendation.reasons))),
            )
            for recommendation in result.recommendations
        ),
    )
    note = f"Steps {result.timed_on}."
    if step_seconds is not None:
        note = f"Cost as a share of a step of {format_seconds(step_seconds)}, {result.timed_on}."
    title = "What would lower it" if result.fits else "What would make it fit"
    return Section(title=title, blocks=(table, Note(note)))


def describe_change(recommendation: PlanRecommendation) -> str:
    """What is changed, in words."""
    return ", ".join(recommendation.changes)
