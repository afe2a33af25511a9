"""The forecast of a recommendation model's step: ranks, timeline, collectives, tables."""

from __future__ import annotations

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.recommender import (
    RECOMMENDER_CAUSES,
    RecommenderForecast,
    RecommenderRank,
    RecommenderSpan,
)
from perfcast.report import palette
from perfcast.report.blocks import name_shares, share_table, stacked_bars, step_card, throughput_card
from perfcast.report.document import Block, Card, Column, Document, Note, Section, Table, words
from perfcast.report.documents.step.pipeline import spread_evenly
from perfcast.report.documents.tables.placed import LOOKUP_BACKWARD, describe_kinds, placement_table
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.units import format_seconds

#: Ranks shown one by one; beyond, the slowest in lookups.
MAX_RANKS = 16

CAUSE_COLOURS = {
    "dense": palette.BLUE,
    "lookup forward": palette.YELLOW,
    "lookup backward": LOOKUP_BACKWARD,
    "all-to-all": palette.ORANGE,
    "all-reduce": palette.PINK,
    "waiting": "rgba(138,148,163,0.45)",
}
#: What a piece of the timeline looks like, in the order of the legend.
_LOOKS = {
    "dense forward": palette.BLUE,
    "dense backward": "#7fb2dd",
    "dense optimizer": palette.NAVY,
    "lookup forward": palette.YELLOW,
    "lookup backward": LOOKUP_BACKWARD,
    "all-to-all": palette.ORANGE,
    "all-reduce": palette.PINK,
}
_LANE_PIXELS = 15


def document_of(forecast: RecommenderForecast) -> Document:
    """Step, throughput, memory, and where each rank's time goes."""
    blocks: list[Block] = [_causes(forecast), _ranks(forecast)]
    if forecast.spans:
        blocks.append(_timeline(forecast))
    if forecast.communication_bytes and forecast.num_devices > 1:
        blocks.append(_collectives(forecast))
    blocks.append(_segments(forecast))
    tables = placement_table(forecast.model.tables, forecast.placements)
    blocks.append(Section(title="Tables", blocks=(tables,), only="page"))
    return Document(
        title=f"{forecast.model.name} on {forecast.num_devices:,} × {forecast.device} ({forecast.cluster})",
        verdict=first_said((forecast.fit,)),
        lead=(
            f"training step · {forecast.global_batch_size:,} samples over all devices · {forecast.dtype} · "
            f"tables updated by {words(forecast.optimizer)}"
        ),
        limits=name_shares("Goes to", _mean_seconds(forecast)),
        cards=_cards(forecast),
        blocks=tuple(blocks),
        assumptions=forecast.assumptions,
    )


def _cards(forecast: RecommenderForecast) -> tuple[Card, ...]:
    fits = forecast.fits
    return (
        step_card(forecast.step_seconds, forecast.step_seconds_low, forecast.step_seconds_high),
        throughput_card(
            forecast.samples_per_second, forecast.samples_per_second / forecast.num_devices, "samples/s"
        ),
        Card(
            label="Fullest device",
            value=forecast.peak_memory_bytes,
            unit="B",
            whole=forecast.capacity_bytes,
            detail="fits" if fits else "does not fit",
            severity="plain" if fits else "alarm",
        ),
        Card(
            label="Slowest rank's lookups",
            value=f"{forecast.lookup_imbalance:.2f} ×",
            detail="the mean of all ranks",
        ),
        Card(
            label="Tables",
            value=len(forecast.model.tables),
            unit="number",
            detail=describe_kinds(forecast.placements),
        ),
    )


def _mean_seconds(forecast: RecommenderForecast) -> dict[str, float]:
    count = len(forecast.ranks)
    return {
        cause: sum(rank.seconds_by_cause.get(cause, 0.0) for rank in forecast.ranks) / count
        for cause in RECOMMENDER_CAUSES
    }


def _causes(forecast: RecommenderForecast) -> Section:
    means = _mean_seconds(forecast)
    found = [(cause, mean) for cause, mean in sorted(means.items(), key=lambda item: -item[1]) if mean > 0]
    note = "All-to-alls and all-reduces as far as no computing hides them; waiting is for a slower rank."
    return Section(
        title="Where the step goes (mean over all ranks)",
        blocks=(share_table("", "Cause", found, total=forecast.step_seconds), Note(note)),
    )


def _ranks(forecast: RecommenderForecast) -> Section:
    ranks = list(forecast.ranks)
    if len(ranks) > MAX_RANKS:
        ranks.sort(key=lambda rank: -rank.seconds_by_cause["lookup backward"])
    table = Table(
        columns=(
            Column("Rank"),
            Column("Shards"),
            *(Column(cause, "s") for cause in RECOMMENDER_CAUSES),
            Column("Memory", "B"),
        ),
        rows=tuple((rank.rank, rank.num_shards, *_spent(rank), rank.memory_bytes) for rank in ranks),
        things="ranks, the slowest in lookups first",
        most_rows=MAX_RANKS,
    )
    return Section(title="By rank", blocks=(ranks_figure(forecast), table))


def _spent(rank: RecommenderRank) -> tuple[float | None, ...]:
    return tuple(rank.seconds_by_cause.get(cause, 0.0) or None for cause in RECOMMENDER_CAUSES)


def ranks_figure(forecast: RecommenderForecast) -> Figure:
    """A bar for each rank, stacked by cause; they are equally long."""
    ranks = spread_evenly(forecast.ranks)
    parts = [
        (cause, CAUSE_COLOURS[cause], [rank.seconds_by_cause.get(cause, 0.0) for rank in ranks])
        for cause in RECOMMENDER_CAUSES
    ]
    return stacked_bars(
        "ranks",
        [f"rank {rank.rank}" for rank in ranks],
        [part for part in parts if any(part[2])],
        totals=[forecast.step_seconds] * len(ranks),
    )


def _timeline(forecast: RecommenderForecast) -> Section:
    note = (
        "Of each rank, compute above and collectives below; gaps are waiting. Drag to look "
        "closer, double-click to see all; '--timeline FILE' writes every event for Perfetto."
    )
    return Section(title="Timeline", blocks=(timeline_figure(forecast), Note(note)), only="page")


def timeline_figure(forecast: RecommenderForecast) -> Figure:
    """A lane for the compute of each rank, and one below for its collectives."""
    shown = spread_evenly([rank.rank for rank in forecast.ranks])
    lanes = {rank: 2 * at for at, rank in enumerate(shown)}
    series = []
    for look, colour in _LOOKS.items():
        pieces = [s for s in forecast.spans if s.rank in lanes and look_of(s) == look]
        if pieces:
            series.append(_line(look, colour, pieces, lanes))
    return Figure(
        name="timeline",
        zooms=True,
        series=tuple(series),
        height=130 + 2 * _LANE_PIXELS * len(lanes),
        legend="above",
        x=Axis(title="from the step's start", unit="s", low=0, high=forecast.step_seconds),
        y=Axis(
            ticks=tuple((lane + 0.5, f"rank {rank}") for rank, lane in lanes.items()),
            low=-0.6,
            high=2 * len(lanes) - 0.4,
            is_reversed=True,
            has_grid=False,
        ),
    )


def _line(look: str, colour: str, pieces: list[RecommenderSpan], lanes: dict[int, int]) -> Curve:
    x, y, texts = list[float | None](), list[int | None](), list[str]()
    for piece in pieces:
        lane = lanes[piece.rank] + (piece.stream != "compute")
        x += [piece.start_seconds, piece.end_seconds, None]
        y += [lane, lane, None]
        texts += [f"{piece.label}, {format_seconds(piece.end_seconds - piece.start_seconds)}"] * 3
    return Curve(
        name=look, colour=colour, width=_LANE_PIXELS - 3, x=tuple(x), y=tuple(y), hovers=tuple(texts)
    )


def look_of(span: RecommenderSpan) -> str:
    """What a span looks like: its lookups, its part of the dense networks, or its kind of collective."""
    if span.stream != "compute":
        return "all-reduce" if span.label.startswith("all-reduce") else "all-to-all"
    if span.label.startswith("lookup"):
        return span.label
    return f"dense {span.label.rpartition(' ')[2]}"


def _collectives(forecast: RecommenderForecast) -> Section:
    rows = []
    for name, num_bytes in forecast.communication_bytes.items():
        spans = [span.end_seconds - span.start_seconds for span in forecast.spans if span.label == name]
        rows.append((name, num_bytes, max(spans, default=0.0) or None))
    table = Table(columns=(Column("Collective"), Column("Bytes", "B"), Column("Time", "s")), rows=tuple(rows))
    note = "Bytes of the busiest rank; seconds from the last rank's arrival."
    return Section(title="Collectives", blocks=(table, Note(note)), only="page")


def _segments(forecast: RecommenderForecast) -> Section:
    note = f"Equal on all ranks; priced by {forecast.cost_model}, waiting for the host included."
    return Section(
        title="Dense networks",
        blocks=(share_table("", "Part", dict(forecast.segment_seconds)), Note(note)),
        only="page",
    )
