"""A search for inference: the best plan and batch, clusters side by side, each cluster's plans."""

from __future__ import annotations

from perfcast.prediction.sweep.batches import Phase
from perfcast.report import palette
from perfcast.report.blocks import throughput_card
from perfcast.report.data.search.serving import plan_degrees
from perfcast.report.document import Block, Card, Column, Command, Document, Fact, Items, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.search.figures import log_seconds_axis
from perfcast.report.figure import Axis, Curve, Figure, Rule
from perfcast.report.values import Value
from perfcast.searches.serving.batches import ServingChoice, ServingReport, ServingResult
from perfcast.units import MEGA, format_bytes, format_count, format_seconds

_COLOURS = (
    palette.BLUE,
    palette.ORANGE,
    palette.PURPLE,
    palette.PINK,
    palette.YELLOW,
    palette.RED,
    palette.GREY,
)
#: Plans that are drawn as lines; others would hide them.
_MAX_LINES = 7


def document_of(found: ServingReport) -> Document:
    """Everything that was found."""
    best = found.results[0]
    again = Section(title="The best plan again", blocks=(Command(best.command(best.ranked[0])),))
    blocks: list[Block] = [again]
    if len(found.results) + len(found.failed) > 1:
        blocks.append(_clusters(found))
    for at, result in enumerate(found.results):
        name = f"{result.cluster}:{result.num_devices}"
        title = f"Best plans on {name}, each with its best batch"
        ranked = (batches_figure(result, f"batches-{at}"), _ranked(result))
        blocks.append(Section(title=title, blocks=ranked, only="page" if at else None))
    return Document(
        title=f"{best.model} on {best.num_devices:,} × {best.device} ({best.cluster})",
        lead=_describe_limits(best),
        cards=_cards(best),
        facts=(
            *program_facts(best.program, best.defaults),
            Fact("Searched", f"{best.num_plans:,} plans, {len(best.points):,} batches of them"),
        ),
        blocks=tuple(blocks),
        assumptions=best.assumptions,
    )


def _describe_limits(result: ServingResult) -> str:
    """Mode, precision, context and limits in one line."""
    request = result.request
    parts = [request.mode, request.dtype, f"{result.context_length:,} tokens of context"]
    if request.max_first_seconds is not None:
        parts.append(f"first token within {format_seconds(request.max_first_seconds)}")
    if request.max_token_seconds is not None:
        parts.append(f"each further one within {format_seconds(request.max_token_seconds)}")
    return " · ".join(parts)


def _cards(result: ServingResult) -> tuple[Card, ...]:
    best = result.ranked[0]
    found = [
        Card(label="Best plan", value=describe_choice(best)),
        throughput_card(best.tokens_per_second, best.tokens_per_second / result.num_devices, "tokens/s"),
    ]
    phases = (("First token", best.point.prefill), ("Each token", best.point.decode))
    found += [_phase_card(label, phase) for label, phase in phases if phase is not None]
    found.append(Card(label="Memory", value=best.point.memory_bytes, unit="B", whole=result.capacity_bytes))
    dollars = result.dollars_per_token(best)
    if dollars is not None:
        found.append(Card(label="Cost", value=MEGA * dollars, unit="$", detail="per million tokens"))
    return tuple(found)


def _phase_card(label: str, phase: Phase) -> Card:
    return Card(
        label=label,
        value=phase.seconds,
        unit="s",
        low=phase.seconds_low,
        high=phase.seconds_high,
        confidence=0.9,
    )


def describe_choice(choice: ServingChoice) -> str:
    """The plan and its batch: 'tp=8 dp=2, batch 64'."""
    return f"{plan_degrees(choice)}, batch {choice.point.batch_size:,}"


def _columns(result: ServingResult) -> tuple[Column, ...]:
    found = (
        Column("Batch", "number"),
        Column("First token", "s", missing=""),
        Column("Each token", "s", missing=""),
        Column("Tokens/s a device", "count", short="Tok/s/dev"),
        Column("Memory", "B"),
    )
    if result.dollars_per_device_hour is None:
        return (*found, Column("Plan"))
    return (*found, Column("$ of a million tokens", "g", short="$/Mtok"), Column("Plan"))


def _row(choice: ServingChoice, result: ServingResult) -> tuple[Value, ...]:
    point, dollars = choice.point, result.dollars_per_token(choice)
    figures: tuple[Value, ...] = (
        point.batch_size,
        None if point.prefill is None else point.prefill.seconds,
        None if point.decode is None else point.decode.seconds,
        choice.tokens_per_second / result.num_devices,
        point.memory_bytes,
    )
    cost = () if dollars is None else (MEGA * dollars,)
    return (*figures, *cost, plan_degrees(choice))


def _ranked(result: ServingResult) -> Table:
    return Table(columns=_columns(result), rows=tuple(_row(choice, result) for choice in result.ranked))


def _clusters(found: ServingReport) -> Section:
    table = Table(
        columns=(Column("Cluster"), *_columns(found.results[0])),
        rows=tuple(
            (f"{result.cluster}:{result.num_devices}", *_row(result.ranked[0], result))
            for result in found.results
        ),
    )
    return Section(title="Clusters, the best first", blocks=(table, Items(found.failed)))


def batches_figure(result: ServingResult, name: str = "batches") -> Figure:
    """Throughput against a token's time: a line for each of the best plans, over its batches."""
    series = []
    for choice, colour in zip(result.ranked[:_MAX_LINES], _COLOURS, strict=False):
        points = [point for point in result.points if point.plan == choice.plan]
        points.sort(key=lambda point: point.point.batch_size)
        series.append(_batches(points, result, plan_degrees(choice), colour))
    best = result.ranked[0]
    series.append(
        Curve(
            name="best within the limits",
            mode="markers",
            colour=palette.GREEN,
            symbols="star",
            sizes=15,
            x=(_seconds(best, result),),
            y=(best.tokens_per_second / result.num_devices,),
        )
    )
    request = result.request
    limit = request.max_token_seconds if request.mode == "decode" else request.max_first_seconds
    drawn = [float(x) for curve in series for x in curve.x if isinstance(x, (int, float))]
    return Figure(
        name=name,
        series=tuple(series),
        height=400,
        legend="above",
        rules=() if limit is None else (Rule(x=limit, label="limit", is_alarm=True),),
        x=log_seconds_axis(
            drawn if limit is None else [*drawn, limit],
            "each token" if request.mode == "decode" else "first token",
        ),
        y=Axis(title="tokens/s of a device", unit="count", from_zero=True),
    )


def _batches(points: list[ServingChoice], result: ServingResult, name: str, colour: str) -> Curve:
    seconds = [_seconds(point, result) for point in points]
    rates = [point.tokens_per_second / result.num_devices for point in points]
    return Curve(
        name=name,
        mode="lines+markers",
        colour=colour,
        x=tuple(seconds),
        y=tuple(rates),
        hovers=tuple(
            f"{describe_choice(point)}\n{format_bytes(point.point.memory_bytes)}\n"
            f"{format_seconds(each)}, {format_count(rate)} tokens/s"
            for point, each, rate in zip(points, seconds, rates, strict=True)
        ),
    )


def _seconds(choice: ServingChoice, result: ServingResult) -> float:
    phase = choice.point.decode if result.request.mode == "decode" else choice.point.prefill
    assert phase is not None  # a choice has its mode's phase
    return phase.seconds
