"""Inference over batch sizes and contexts."""

from __future__ import annotations

from collections.abc import Callable

from perfcast.core.forecast.fit import first_said
from perfcast.prediction.sweep.batches import BatchesForecast, BatchPoint, Phase
from perfcast.report import palette
from perfcast.report.document import Block, Column, Document, Items, Note, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.scale import describe_degrees
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.report.values import Value
from perfcast.units import format_count, format_seconds


def document_of(found: BatchesForecast) -> Document:
    """The sweep, and what the memory holds."""
    figures: list[Block] = []
    if any(point.decode for point in found.points):
        trade, decode = trade_figure(found), seconds_figure(found, "decode")
        figures += [
            Section(title="Throughput against time per output token", blocks=(trade,), only="page"),
            Section(title="Time per output token", blocks=(decode,), only="page"),
        ]
    if any(point.prefill for point in found.points):
        title, prefill = "Time to first token, all prompts at once", seconds_figure(found, "prefill")
        figures.append(Section(title=title, blocks=(prefill,), only="page"))
    held = Items(tuple(("·", _describe_largest(*pair)) for pair in found.largest_batches))
    return Document(
        title=(
            f"{found.model} in {found.dtype} on {found.num_devices:,} × {found.device} ({found.cluster}), "
            f"{describe_degrees(found.plan)}"
        ),
        verdict=first_said(found.fits),
        facts=program_facts(found.program, found.defaults),
        blocks=(*figures, _points(found), Section(title="What the memory holds", blocks=(held,))),
        assumptions=found.assumptions,
    )


def _describe_largest(context: int, batch: int) -> str:
    """What the memory holds of a context."""
    if not batch:
        return f"the memory holds no sequence of {context:,} tokens"
    return f"the memory holds {batch:,} sequences of {context:,} tokens"


def _points(found: BatchesForecast) -> Section:
    table = Table(
        columns=(
            Column("Context", "number"),
            Column("Batch", "number"),
            Column("First token", "s", short="First", missing=""),
            Column("Per token", "s", short="Token", missing=""),
            Column("Tokens/s a device", "count", short="Tok/s/dev", missing=""),
            Column("Prompt tokens/s a device", "count", short="Prompt/s", missing=""),
            Column("Memory", "B"),
            Column("", folds=False, missing=""),
        ),
        rows=tuple(_row(point, found.num_devices) for point in found.points if not point.skipped),
    )
    skipped = tuple(
        (f"{p.batch_size:,} × {p.context_length:,}", p.skipped) for p in found.points if p.skipped
    )
    note = Note("Rates: of one device. A ring: the memory does not hold it.", only="page")
    return Section(title="Points", blocks=(table, Items(skipped), note))


def _row(point: BatchPoint, num_devices: int) -> tuple[Value, ...]:
    return (
        point.context_length,
        point.batch_size,
        _seconds(point.prefill),
        _seconds(point.decode),
        _rate(point.decode, num_devices),
        _rate(point.prefill, num_devices),
        point.memory_bytes,
        None if point.fits else "does not fit",
    )


def _seconds(phase: Phase | None) -> float | None:
    return None if phase is None else phase.seconds


def _rate(phase: Phase | None, num_devices: int) -> float | None:
    return None if phase is None else phase.tokens_per_second / num_devices


def seconds_figure(found: BatchesForecast, mode: str) -> Figure:
    """Time to first token, or per output token, over sequences, a line for each context."""

    def seconds(point: BatchPoint) -> float | None:
        return _seconds(point.prefill if mode == "prefill" else point.decode)

    batches = sorted({point.batch_size for point in found.points})
    ticks = tuple((batch, f"{batch:,}") for batch in batches)
    return _lines(
        found,
        mode,
        lambda point: point.batch_size,
        seconds,
        Axis(title="sequences at once", scale="log", ticks=ticks),
        Axis(title="seconds", scale="log", unit="s"),
    )


def trade_figure(found: BatchesForecast) -> Figure:
    """Tokens per second and device against what a reader waits for a token."""
    return _lines(
        found,
        "trade",
        lambda point: _seconds(point.decode),
        lambda point: _rate(point.decode, found.num_devices),
        Axis(title="time per output token", unit="s", from_zero=True),
        Axis(title="tokens per second and device", scale="log", unit="count"),
    )


def _lines(
    found: BatchesForecast,
    name: str,
    across: Callable[[BatchPoint], float | None],
    up: Callable[[BatchPoint], float | None],
    x: Axis,
    y: Axis,
) -> Figure:
    contexts = sorted({point.context_length for point in found.points})
    series = []
    for context, colour in zip(contexts, palette.in_turns(len(contexts)), strict=True):
        mine = [p for p in found.points if p.context_length == context and not p.skipped]
        series.append(
            Curve(
                name=f"{context:,} tokens",
                mode="lines+markers",
                colour=colour,
                x=tuple(across(point) for point in mine),
                y=tuple(up(point) for point in mine),
                symbols=tuple("circle" if point.fits else "circle-open" for point in mine),
                hovers=tuple(_hover(point, found.num_devices) for point in mine),
            )
        )
    return Figure(name=name, series=tuple(series), height=360, legend="above", x=x, y=y)


def _hover(point: BatchPoint, num_devices: int) -> str:
    lines = [f"{point.batch_size:,} × {point.context_length:,} tokens"]
    if point.prefill is not None:
        lines.append(f"first token {format_seconds(point.prefill.seconds)}")
    if point.decode is not None:
        rate = format_count(point.decode.tokens_per_second / num_devices)
        lines.append(f"{format_seconds(point.decode.seconds)} a token, {rate} tokens/s a device")
    if not point.fits:
        lines.append("does not fit the memory")
    return "\n".join(lines)
