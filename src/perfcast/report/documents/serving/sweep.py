"""Deployments under several loads: one row for each."""

from __future__ import annotations

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.forecast.serving_sweep import ServingSweep, SweptPoint
from perfcast.report.document import Column, Document, Items, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.serving.forecast import describe_deployment
from perfcast.report.values import Value


def document_of(found: ServingSweep) -> Document:
    """The points as a table, and why some have no forecast."""
    first = next(point.forecast for point in found.points if point.forecast is not None)
    skipped = tuple((_values(point), point.skipped) for point in found.points if point.skipped)
    return Document(
        title=f"{first.model} on {first.num_devices} × {first.device} ({first.cluster})",
        verdict=first_said(found.fits),
        lead=(
            f"serving over {', '.join(found.axes)} · {first.dtype} · {describe_deployment(first.deployment)}"
        ),
        facts=program_facts(first.program, first.defaults),
        blocks=(Section(title="Points", blocks=(_table(found), Items(skipped))),),
        assumptions=first.assumptions,
    )


def _values(point: SweptPoint) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.values.items())


def _table(found: ServingSweep) -> Table:
    columns = (
        *(Column(name) for name in found.axes),
        Column("First token", "s", short="First"),
        Column("90 %", "s", short="90 %"),
        Column("Further token", "s", short="Token"),
        Column("Tokens/s a user", "count", short="Tok/s/user"),
        Column("Tokens/s a device", "count", short="Tok/s/dev"),
        Column("Requests/s", "count", short="Req/s"),
    )
    rows = tuple(
        (*point.values.values(), *_row(point.forecast))
        for point in found.points
        if point.forecast is not None
    )
    return Table(columns=columns, rows=rows, things="points")


def _row(forecast: ServingForecast) -> tuple[Value, ...]:
    rates = forecast.rates
    return (
        forecast.time_to_first_token.median.value,
        forecast.time_to_first_token.p90.value,
        forecast.time_per_output_token.median.value,
        rates.output_tokens_per_second_per_user.value,
        rates.output_tokens_per_second_per_device.value,
        rates.requests_per_second.value,
    )
