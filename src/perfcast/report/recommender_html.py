"""A recommendation model's step as one HTML file: ranks, timeline, exchanges, tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from perfcast.core.embedding.lookup import EmbeddingTable, TablePlacement
from perfcast.core.forecast.recommender import RECOMMENDER_CAUSES, RecommenderForecast, RecommenderRank
from perfcast.report.html import (
    MAX_ROWS,
    Card,
    Cell,
    Section,
    cards,
    figure_html,
    left_out,
    page,
    share,
    table,
)
from perfcast.report.recommender_figures import plot_rank_causes, plot_recommender_timeline
from perfcast.report.shard_text import describe_kinds, describe_ranks
from perfcast.report.tables import words
from perfcast.units import format_bytes, format_count, format_seconds


def render_recommender_html(forecast: RecommenderForecast) -> str:
    """The whole report as one page."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in forecast.assumptions)
    sections = [
        Section("", f'<p class="lead">{escape(_describe(forecast))}</p>{cards(_headline(forecast))}'),
        Section("Where the step goes", _causes(forecast)),
        Section("By rank", figure_html(plot_rank_causes(forecast), "ranks") + _ranks(forecast)),
    ]
    if forecast.spans:
        sections.append(Section("Timeline", _timeline(forecast)))
    if forecast.exchange_bytes and forecast.num_devices > 1:
        sections.append(Section("Exchanges", _exchanges(forecast)))
    sections.append(Section("Dense networks", _segments(forecast)))
    sections.append(Section("Tables", _tables(forecast)))
    sections.append(Section("Assumptions", f"<ul>{notes}</ul>"))
    title = f"{forecast.model.name} on {forecast.num_devices:,} × {forecast.device}"
    return page(title, sections)


def _describe(forecast: RecommenderForecast) -> str:
    return (
        f"Training step on {forecast.cluster}, {forecast.global_batch_size:,} samples over all devices, "
        f"{forecast.dtype}, tables updated by {words(forecast.optimizer)}"
    )


def _headline(forecast: RecommenderForecast) -> list[Card]:
    low, high = format_seconds(forecast.step_seconds_low), format_seconds(forecast.step_seconds_high)
    fits = forecast.peak_memory_bytes <= forecast.capacity_bytes
    each = format_count(forecast.samples_per_second / forecast.num_devices)
    verdict = f"of {format_bytes(forecast.capacity_bytes)}: {'fits' if fits else 'does not fit'}"
    return [
        Card("Step", format_seconds(forecast.step_seconds), f"{low} – {high}"),
        Card("Samples per second", format_count(forecast.samples_per_second), f"{each} of one device"),
        Card("Fullest device", format_bytes(forecast.peak_memory_bytes), verdict, alarm=not fits),
        Card("Slowest rank's lookups", f"{forecast.lookup_imbalance:.2f} ×", "the mean of all ranks"),
        Card("Tables", f"{len(forecast.model.tables):,}", describe_kinds(forecast.placements)),
    ]


def _causes(forecast: RecommenderForecast) -> str:
    count = len(forecast.ranks)
    means = {
        cause: sum(rank.seconds_by_cause.get(cause, 0.0) for rank in forecast.ranks) / count
        for cause in RECOMMENDER_CAUSES
    }
    rows = [
        (Cell(cause), Cell(format_seconds(mean), mean), share(mean, forecast.step_seconds))
        for cause, mean in sorted(means.items(), key=lambda item: -item[1])
        if mean > 0
    ]
    note = "Exchanges and all-reduces as far as no computing hides them; waiting is for a slower rank."
    return table(("Cause", "Mean over all ranks", "Share"), rows) + f'<p class="note">{note}</p>'


def _ranks(forecast: RecommenderForecast) -> str:
    ranks: Sequence[RecommenderRank] = forecast.ranks[:MAX_ROWS]
    rows = [
        (
            Cell(str(rank.rank), rank.rank),
            Cell(str(rank.num_shards), rank.num_shards),
            *(_time(rank.seconds_by_cause.get(cause, 0.0)) for cause in RECOMMENDER_CAUSES),
            Cell(format_bytes(rank.memory_bytes), rank.memory_bytes),
        )
        for rank in ranks
    ]
    shown = table(("Rank", "Shards", *RECOMMENDER_CAUSES, "Memory"), rows)
    return shown + left_out(len(forecast.ranks), "ranks")


def _time(seconds: float) -> Cell:
    return Cell(format_seconds(seconds) if seconds > 0 else "–", seconds)


def _timeline(forecast: RecommenderForecast) -> str:
    note = (
        "Of each rank, compute above and exchanges below; gaps are waiting. Drag to look closer; "
        "'--timeline FILE' writes every event for Perfetto."
    )
    return figure_html(plot_recommender_timeline(forecast), "timeline") + f'<p class="note">{note}</p>'


def _exchanges(forecast: RecommenderForecast) -> str:
    rows = []
    for name, num_bytes in forecast.exchange_bytes.items():
        spans = [span.end_seconds - span.start_seconds for span in forecast.spans if span.label == name]
        seconds = max(spans, default=0.0)
        rows.append((Cell(name), Cell(format_bytes(num_bytes), num_bytes), _time(seconds)))
    note = "Bytes of the busiest rank; seconds from the last rank's arrival."
    return table(("Exchange", "Bytes", "Time"), rows) + f'<p class="note">{note}</p>'


def _segments(forecast: RecommenderForecast) -> str:
    total = sum(forecast.segment_seconds.values())
    rows = [
        (Cell(name), Cell(format_seconds(seconds), seconds), share(seconds, total))
        for name, seconds in forecast.segment_seconds.items()
    ]
    note = f"Equal on all ranks; priced by {escape(forecast.cost_model)}, waiting for the host included."
    return table(("Part", "Time", "Share"), rows) + f'<p class="note">{note}</p>'


def _tables(forecast: RecommenderForecast) -> str:
    return placements_html(forecast.model.tables, forecast.placements)


def placements_html(tables: Sequence[EmbeddingTable], placements: Sequence[TablePlacement]) -> str:
    """Tables with where they lie, the largest first."""
    pairs = sorted(zip(tables, placements, strict=True), key=lambda pair: -pair[0].weight_bytes)
    rows = [
        (
            Cell(one.name),
            Cell(format_count(one.num_rows), one.num_rows),
            Cell(str(one.dim), one.dim),
            Cell(f"{one.pooling:.3g}", one.pooling),
            Cell(format_bytes(one.weight_bytes), one.weight_bytes),
            Cell(words(placement.kind.value)),
            Cell(describe_ranks(placement)),
        )
        for one, placement in pairs[:MAX_ROWS]
    ]
    headings = ("Table", "Rows", "Columns", "Lookups of a sample", "Weights", "Sharding", "Ranks")
    return table(headings, rows) + left_out(len(pairs), "tables")
