"""Scaling curves: throughput, efficiency and MFU over devices, and where each step goes."""

from __future__ import annotations

from collections.abc import Callable

from perfcast.core.forecast.fit import first_said
from perfcast.core.plan import Plan
from perfcast.prediction.sweep.scale import COMMUNICATION, ScaleCurve, ScaleForecast, ScalePoint
from perfcast.report import palette
from perfcast.report.document import Block, Column, Document, Items, Note, Section, Table, share_of
from perfcast.report.documents.program import program_facts
from perfcast.report.figure import Axis, Bars, Curve, Figure
from perfcast.report.values import Value, percent
from perfcast.units import format_count, format_seconds

#: What a step goes to, by name: its causes and a colour.
_PARTS = (
    ("compute", ("compute", "optimizer"), palette.BLUE),
    ("computed again", ("recompute",), palette.PURPLE),
    ("exposed communication", COMMUNICATION, palette.ORANGE),
    ("bubble", ("bubble",), palette.GREY),
    ("host and other", ("host", "offload", "straggler", "other"), palette.RED),
)
_KEYS = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "virtual_stages_per_rank": "vp",
}
#: What the columns of shares are of.
LEGEND = (
    "Efficiency: tokens/s of a device over those of the first row. Communication: part of the step that no "
    "compute hides. Bubble: that stages wait for one another."
)


def document_of(found: ScaleForecast) -> Document:
    """Figures of all clusters, then a section for each."""
    figures = (
        Section(title="Tokens per second", blocks=(throughput_figure(found),), only="page"),
        Section(
            title="Tokens per second of a device",
            blocks=(share_figure(found, "efficiency"),),
            only="page",
        ),
        Section(title="Model flops utilization", blocks=(share_figure(found, "mfu"),), only="page"),
    )
    curves = (_curve(found, index, curve) for index, curve in enumerate(found.curves))
    return Document(
        title=_describe(found),
        verdict=first_said(found.fits),
        facts=tuple(fact for program in found.programs for fact in program_facts(program, found.defaults)),
        blocks=(*figures, *curves, Note(LEGEND)),
        assumptions=found.assumptions,
    )


def _describe(found: ScaleForecast) -> str:
    """One line: what grows."""
    kind = "weak" if found.is_weak else "strong"
    batch = f"{found.batch_size:,} sequences of {found.sequence_length:,} tokens"
    if found.is_weak:
        smallest = min(point.num_devices for curve in found.curves for point in curve.points)
        batch += f" on {smallest:,} devices, in proportion on more"
    return f"{found.model}, {kind} scaling: {batch}"


def _curve(found: ScaleForecast, index: int, curve: ScaleCurve) -> Section:
    known = _known(curve)
    table = Table(
        columns=(
            Column("Devices", "number"),
            Column("Batch", "number", only=None if found.is_weak else "page"),
            Column("Step", "s"),
            Column("Tokens/s", "count"),
            Column("Efficiency", "share", short="Effic."),
            Column("MFU", "share"),
            Column("Communication", "share", short="Comm."),
            Column("Bubble", "share"),
            Column("Plan"),
        ),
        rows=tuple(_row(point) for point in known),
    )
    skipped = Items(tuple((f"{p.num_devices:,}", p.skipped) for p in curve.points if p.forecast is None))
    parts: tuple[Block, ...] = (parts_figure(curve, f"parts-{index}"),) if known else ()
    ring = Note("A ring stands for a plan that the memory does not hold.", only="page")
    return Section(title=f"{curve.title}: {curve.device}", blocks=(*parts, table, skipped, ring))


def _row(point: ScalePoint) -> tuple[Value, ...]:
    forecast = point.forecast
    if forecast is None:
        return ()
    plan = describe_degrees(forecast.plan) + ("" if fits(point) else ", does not fit")
    return (
        point.num_devices,
        point.batch_size,
        forecast.step_seconds,
        forecast.tokens_per_second,
        point.efficiency,
        forecast.mfu,
        point.exposed_share,
        point.bubble_share,
        plan,
    )


def fits(point: ScalePoint) -> bool:
    """Whether the memory holds the plan, as far as is known."""
    memory = point.forecast.memory if point.forecast else None
    return memory is None or memory.fits


def describe_degrees(plan: Plan | None) -> str:
    """``'tp=8 pp=4 zero=1'``: what is more than 1 (but dp, which follows), and what changes the memory."""
    if plan is None:
        return ""
    parts = [f"{key}={getattr(plan, name)}" for name, key in _KEYS.items() if getattr(plan, name) > 1]
    if plan.zero_stage:
        parts.append(f"zero={plan.zero_stage}")
    if plan.recompute != "none":
        parts.append(f"recompute={plan.recompute}")
    return " ".join(parts) or "dp alone"


def throughput_figure(found: ScaleForecast) -> Figure:
    """Tokens per second over devices, with the line of the first point's efficiency."""
    ideals = []
    for curve, colour in zip(found.curves, palette.in_turns(len(found.curves)), strict=True):
        known = _known(curve)
        if len(known) > 1 and known[0].forecast:
            each = known[0].forecast.tokens_per_second_per_device
            ends = (known[0].num_devices, known[-1].num_devices)
            line = (each * ends[0], each * ends[1])
            ideals.append(Curve(x=ends, y=line, colour=colour, width=1, dash="dot"))
    return _lines(
        found,
        "throughput",
        lambda point: point.forecast.tokens_per_second if point.forecast else None,
        Axis(title="tokens per second", scale="log", unit="count"),
        tuple(ideals),
    )


def share_figure(found: ScaleForecast, name: str) -> Figure:
    """Efficiency or MFU over devices."""

    def share(point: ScalePoint) -> float | None:
        if point.forecast is None or point.efficiency is None:
            return None
        return point.efficiency if name == "efficiency" else point.forecast.mfu

    title = "of the first point's" if name == "efficiency" else "MFU"
    return _lines(found, name, share, Axis(title=title, unit="share", from_zero=True))


def parts_figure(curve: ScaleCurve, name: str = "parts") -> Figure:
    """The step at each number of devices as shares of its time."""
    known = _known(curve)
    labels = tuple(f"{point.num_devices:,}" for point in known)
    series = []
    for part, causes, colour in _PARTS:
        seconds = [
            sum(p.forecast.time.seconds_by_cause.get(c, 0.0) for c in causes) for p in known if p.forecast
        ]
        steps = [p.forecast.step_seconds for p in known if p.forecast]
        shares = [share_of(each, step) for each, step in zip(seconds, steps, strict=True)]
        if any(shares):
            hovers = tuple(
                f"{part}\n{format_seconds(each)}, {percent(share)}"
                for each, share in zip(seconds, shares, strict=True)
            )
            series.append(Bars(name=part, labels=labels, values=tuple(shares), colours=colour, hovers=hovers))
    return Figure(
        name=name,
        series=tuple(series),
        height=320,
        is_stacked=True,
        legend="above",
        x=Axis(title="devices", scale="category"),
        y=Axis(title="of the step", unit="share", low=0, high=1),
    )


def _lines(
    found: ScaleForecast,
    name: str,
    value: Callable[[ScalePoint], float | None],
    y: Axis,
    ideals: tuple[Curve, ...] = (),
) -> Figure:
    series = []
    counts: set[int] = set()
    for curve, colour in zip(found.curves, palette.in_turns(len(found.curves)), strict=True):
        known = _known(curve)
        counts.update(point.num_devices for point in known)
        series.append(
            Curve(
                name=curve.title,
                mode="lines+markers",
                colour=colour,
                x=tuple(point.num_devices for point in known),
                y=tuple(value(point) for point in known),
                symbols=tuple("circle" if fits(point) else "circle-open" for point in known),
                hovers=tuple(_hover(point) for point in known),
            )
        )
    ticks = tuple((count, f"{count:,}") for count in sorted(counts))
    return Figure(
        name=name,
        series=(*series, *ideals),
        height=360,
        legend="above",
        x=Axis(title="devices", scale="log", ticks=ticks),
        y=y,
    )


def _hover(point: ScalePoint) -> str:
    forecast = point.forecast
    if forecast is None:
        return ""
    return "\n".join(
        (
            f"{point.num_devices:,} devices, {format_seconds(forecast.step_seconds)}",
            f"{format_count(forecast.tokens_per_second)} tokens/s, MFU {percent(forecast.mfu)}",
            describe_degrees(forecast.plan),
            "" if fits(point) else "does not fit the memory",
        )
    )


def _known(curve: ScaleCurve) -> list[ScalePoint]:
    return [point for point in curve.points if point.forecast is not None]
