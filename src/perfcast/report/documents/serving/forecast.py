"""One deployment under one load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.serving import Between, Latency, ServingForecast
from perfcast.report.blocks import name_shares
from perfcast.report.document import Block, Card, Cell, Column, Document, Fact, Note, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.serving.describe import (
    BOUNDS,
    describe_deployment,
    describe_lengths,
    describe_load,
    interval,
)
from perfcast.report.documents.serving.figures import distribution_figure, occupancy_section
from perfcast.report.values import Unit, Value, format_value, percent
from perfcast.units import format_count

_CONFIDENCE = 0.9
_METHODS = {"events": "events of every step", "closed_form": "the steady state by formula"}
_PER_MILLION = "per million tokens written"
#: Statistics that both forms are compared by, and how they are said.
_WORDS = {"mean": "mean", "p99": "99 % within"}
_STATISTICS = {"mean": "Mean", "median": "Median", "p90": "90 % within", "p99": "99 % within"}


def document_of(forecast: ServingForecast) -> Document:
    """The headline, latencies, rates, what limits, what was held over time, both forms, the assumptions."""
    blocks: list[Block] = [_latencies(forecast), _rates(forecast), _bounds(forecast)]
    if forecast.played is not None:
        blocks += [_distributions(forecast), occupancy_section(forecast, forecast.played)]
    if forecast.other is not None:
        blocks.append(_both_forms(forecast, forecast.other))
    return Document(
        title=f"{forecast.model} served by {forecast.num_devices:,} × {forecast.device} ({forecast.cluster})",
        verdict=first_said(forecast.fits),
        lead=describe_setting(forecast),
        limits=name_shares(
            "Limited by", {BOUNDS[name][0]: share for name, share in forecast.bound_by.items()}
        ),
        cards=_cards(forecast),
        facts=_facts(forecast),
        blocks=tuple(blocks),
        assumptions=forecast.assumptions,
    )


def describe_setting(forecast: ServingForecast) -> str:
    """Deployment, load, lengths and precision in one line."""
    parts = (
        describe_deployment(forecast.deployment),
        describe_load(forecast.load),
        describe_lengths(forecast),
        f"{forecast.dtype}, keys and values in {forecast.kv_cache_dtype}",
    )
    return " · ".join(part for part in parts if part)


def _cards(forecast: ServingForecast) -> tuple[Card, ...]:
    rates, first, each = forecast.rates, forecast.time_to_first_token, forecast.time_per_output_token
    whole = format_count(rates.output_tokens_per_second.value)
    found = [
        _card("Time to first token", first.mean, "s", f"99 % within {format_value(first.p99.value, 's')}"),
        _card("Time per output token", each.mean, "s", f"99 % within {format_value(each.p99.value, 's')}"),
        _card(
            "Throughput of a device",
            rates.output_tokens_per_second_per_device,
            "tokens/s",
            f"written; {whole} of all",
        ),
        _card("Speed for a user", rates.output_tokens_per_second_per_user, "tokens/s"),
    ]
    if not _has_further_tokens(forecast):
        found = [found[0], found[2]]
    if rates.goodput_requests_per_second is not None:
        of_all = format_count(rates.requests_per_second.value)
        card = _card(
            "Within the limits",
            rates.goodput_requests_per_second,
            "requests/s",
            f"of {of_all}{_kept(forecast)}",
        )
        found.append(replace(card, severity="alarm" if forecast.keeps_limits is False else "plain"))
    if rates.dollars_per_million_output_tokens is not None:
        found.append(_card("Cost", rates.dollars_per_million_output_tokens, "$", _PER_MILLION))
    if rates.joules_per_million_output_tokens is not None:
        found.append(_card("Energy", rates.joules_per_million_output_tokens, "J", _PER_MILLION))
    memory = Card(label="Memory", value=forecast.memory_bytes, unit="B", whole=forecast.capacity_bytes)
    return (*found, memory)


def _has_further_tokens(forecast: ServingForecast) -> bool:
    """Whether any answer has more than its first token; else nothing is known of further ones."""
    return forecast.time_per_output_token.mean.value > 0


def _kept(forecast: ServingForecast) -> str:
    """Which share of requests keeps all limits, and whether that is enough; '' where it is not known."""
    share = forecast.within_limits
    if share is None:
        return ""
    verdict = "as asked for" if forecast.keeps_limits else "fewer than asked for"
    return f"; {percent(share.value)} of requests keep all, {verdict}"


def _card(label: str, figure: Between, unit: Unit, detail: str = "") -> Card:
    return Card(
        label=label,
        value=figure.value,
        unit=unit,
        low=figure.low,
        high=figure.high,
        confidence=_CONFIDENCE,
        detail=detail,
    )


def _facts(forecast: ServingForecast) -> tuple[Fact, ...]:
    played = forecast.played
    how = _METHODS[forecast.method]
    if played is not None:
        how += f" ({len(played.sent_seconds):,} requests, {played.num_steps:,} steps)"
    held = f"{forecast.kv_tokens:,} tokens' keys and values in each engine"
    batch = f"{forecast.mean_batch:.1f} sequences write in a step of an engine, on average"
    found = [Fact("Priced by", f"{forecast.cost_model}; {how}"), Fact("Room", held), Fact("Batch", batch)]
    if played is not None and played.preemptions.any():
        lost = int(played.preemptions.sum())
        found.append(Fact("Preempted", f"{lost:,} times a request lost its room and was read again"))
    return (*program_facts(forecast.program, forecast.defaults), *found)


def _latencies(forecast: ServingForecast) -> Section:
    latencies = (forecast.time_to_first_token, forecast.time_per_output_token, forecast.end_to_end)
    rows = tuple(row for name, word in _STATISTICS.items() for row in _latency_rows(word, name, latencies))
    columns = (Column(""), Column("First token"), Column("Each further token"), Column("End to end"))
    return Section(title="What clients wait", blocks=(Table(columns=columns, rows=rows),))


def _latency_rows(
    word: str, statistic: str, latencies: Sequence[Latency]
) -> tuple[tuple[Value | Cell, ...], ...]:
    figures = [getattr(latency, statistic) for latency in latencies]
    values = tuple(_cell(figure.value, "s") if figure.value else Cell("–") for figure in figures)
    ends = tuple(Cell(interval(figure, "s") if figure.value else "–", figure.low) for figure in figures)
    return ((word, *values), ("  with 90 %", *ends))


def _rates(forecast: ServingForecast) -> Section:
    rates = forecast.rates
    unknown = None if _has_further_tokens(forecast) else rates.output_tokens_per_second_per_user
    named: tuple[tuple[str, Between | None, Unit], ...] = (
        ("Requests", rates.requests_per_second, "requests/s"),
        ("Requests within the limits", rates.goodput_requests_per_second, "requests/s"),
        ("Tokens read", rates.input_tokens_per_second, "tokens/s"),
        ("Tokens written", rates.output_tokens_per_second, "tokens/s"),
        ("Tokens written by a device", rates.output_tokens_per_second_per_device, "tokens/s"),
        ("Tokens written for a user", rates.output_tokens_per_second_per_user, "tokens/s"),
        ("Of a million tokens read, the whole bill", rates.dollars_per_million_input_tokens, "$"),
        ("Of a million tokens written, the whole bill", rates.dollars_per_million_output_tokens, "$"),
        ("Of a million tokens read, all energy", rates.joules_per_million_input_tokens, "J"),
        ("Of a million tokens written, all energy", rates.joules_per_million_output_tokens, "J"),
    )
    rows = tuple(
        (name, _cell(figure.value, unit), Cell(interval(figure, unit), figure.low))
        for name, figure, unit in named
        if figure is not None and figure is not unknown
    )
    columns = (Column(""), Column("Value"), Column("With 90 %"))
    return Section(title="What replicas answer", blocks=(Table(columns=columns, rows=rows),))


def _bounds(forecast: ServingForecast) -> Section:
    pairs = [(BOUNDS[name][0], share) for name, share in _ordered_bounds(forecast) if share >= _LEAST_SHARE]
    columns = (Column("Bound"), Column("Share", "share", has_bar=True))
    return Section(title="What limits (shares of time)", blocks=(Table(columns=columns, rows=tuple(pairs)),))


_LEAST_SHARE = 5e-4


def _ordered_bounds(forecast: ServingForecast) -> list[tuple[str, float]]:
    return sorted(forecast.bound_by.items(), key=lambda pair: -pair[1])


def _distributions(forecast: ServingForecast) -> Section:
    played = forecast.played
    assert played is not None  # asked for only where requests were played
    sent = played.sent_seconds
    measured = (sent >= played.measured_from_seconds) & (sent <= played.measured_to_seconds)
    first = distribution_figure(
        "first-token", "time to first token", played.time_to_first_token_seconds[measured]
    )
    each = distribution_figure(
        "output-token", "time per output token", played.time_per_output_token_seconds[measured]
    )
    found = tuple(figure for figure in (first, each) if figure is not None)
    return Section(title="How many requests wait how long", blocks=found, only="page")


def _both_forms(forecast: ServingForecast, other: ServingForecast) -> Section:
    """The two answers to one question; where they differ, that of the events is given."""
    compared = _compared(forecast, other)
    rows = tuple(
        (name, _cell(mine, unit), _cell(its, unit), _difference(mine, its))
        for name, unit, mine, its in compared
    )
    names = {"events": "Events", "closed_form": "Formula"}
    columns = (
        Column(""),
        Column(names[forecast.method]),
        Column(names[other.method]),
        Column("Difference", "+share"),
    )
    blocks: list[Block] = [Table(columns=columns, rows=rows)]
    if any(abs(_difference(mine, its) or 0.0) > _FAR for *_, mine, its in compared):
        blocks.append(
            Note("Where they differ, the events are right: a formula knows no bursts, no order, no ends.")
        )
    return Section(title="Events beside the steady state by formula", blocks=tuple(blocks))


#: Difference between both forms that is worth a word.
_FAR = 0.1


def _difference(mine: float, its: float) -> float | None:
    return its / mine - 1 if mine else None


def _cell(value: float, unit: Unit) -> Cell:
    return Cell(format_value(value, unit), value)


def _compared(forecast: ServingForecast, other: ServingForecast) -> list[tuple[str, Unit, float, float]]:
    """Names, units and figures of both."""
    found: list[tuple[str, Unit, float, float]] = []
    named = (
        ("Time to first token", forecast.time_to_first_token, other.time_to_first_token),
        ("Time per output token", forecast.time_per_output_token, other.time_per_output_token),
    )
    for name, mine, its in named if _has_further_tokens(forecast) else named[:1]:
        for statistic, word in _WORDS.items():
            pair = [getattr(one, statistic).value for one in (mine, its)]
            found.append((f"{name}, {word}", "s", pair[0], pair[1]))
    written = [one.rates.output_tokens_per_second.value for one in (forecast, other)]
    found.append(("Tokens written", "tokens/s", written[0], written[1]))
    found.append(("Batch", "g", forecast.mean_batch, other.mean_batch))
    return found
