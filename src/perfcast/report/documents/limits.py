"""Limits of the data-movement model: how large a run can be before moving data costs its utilization."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcast.published.data_movement.curve import ScalingLimits, largest_loss
from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions
from perfcast.report import palette
from perfcast.report.document import Cell, Column, Document, Fact, Note, Section, Table
from perfcast.report.figure import Axis, Curve, Figure, Label, Rule
from perfcast.report.values import Value, percent

#: A run, and the published utilization of one so large, where it is known.
Row = tuple[ScaledRun, float | None]


def document_of(
    found: ScalingLimits,
    assumptions: ScalingAssumptions,
    rows: Sequence[Row],
    curve: Sequence[ScaledRun] = (),
) -> Document:
    """Utilization by the size of the run, and where it ends.

    Args:
        curve: Runs close enough together for a line through them; () draws one through those of the rows.
    """
    columns = (
        Column("FLOP"),
        Column("Ours", "share"),
        Column("Published", "share", missing=""),
        Column("Points", missing=""),
        Column("Devices"),
        Column("Tensor·pipe·data·expert", folds=False),
        Column("Loss", folds=False),
    )
    table = Table(columns=columns, rows=tuple(_row(*row) for row in rows))
    free = ", ".join(f"{name}={value:.4g}" for name, value in vars(assumptions).items())
    note = f"free variables (--assume NAME=VALUE; defaults chosen to lie near the published curve): {free}"
    return Document(
        title="utilization of a training run on H100s, and what its steps wait for most",
        facts=_facts(found, rows),
        blocks=(
            Section(
                title="Utilization over training compute",
                blocks=(limits_figure(found, rows, curve or [scaled for scaled, _ in rows]),),
                only="page",
            ),
            Section(blocks=(table, Note(note))),
        ),
    )


def limits_figure(found: ScalingLimits, rows: Sequence[Row], curve: Sequence[ScaledRun]) -> Figure:
    """The utilization of runs of more and more arithmetic, the published one, and where scaling ends."""
    ends = [run for run in curve if run.utilization > 0]
    series = [
        Curve(
            name="ours",
            colour=palette.BLUE,
            x=tuple(run.run.flops for run in ends),
            y=tuple(run.utilization for run in ends),
            hovers=tuple(_describe_run(run) for run in ends),
        )
    ]
    published = [(scaled.run.flops, share) for scaled, share in rows if share is not None]
    if published:
        series.append(
            Curve(
                name="published",
                colour=palette.ORANGE,
                mode="markers",
                x=tuple(flops for flops, _ in published),
                y=tuple(share for _, share in published),
                hovers=tuple(f"{flops:.1e} FLOP\npublished {percent(share)}" for flops, share in published),
            )
        )
    limits = [(flops, f"{share:.0%} kept") for share, flops in found.kept_flops]
    limits.append((found.last_flops, "no plan beyond"))
    return Figure(
        name="utilization",
        series=tuple(series),
        height=380,
        legend="above" if published else "",
        rules=tuple(Rule(x=flops) for flops, _ in limits if math.isfinite(flops)),
        labels=tuple(
            Label(x=flops, text=text, anchor="center") for flops, text in limits if math.isfinite(flops)
        ),
        x=Axis(title="training compute (FLOP)", scale="log"),
        y=Axis(title="utilization", unit="share", from_zero=True),
    )


def _describe_run(scaled: ScaledRun) -> str:
    devices = f"{scaled.plan.num_devices:.1e} devices" if scaled.plan else "no plan"
    waits = largest_loss(scaled)
    lost = f"\nwaits most for {waits}" if waits else ""
    return f"{scaled.run.flops:.1e} FLOP\n{percent(scaled.utilization)} on {devices}{lost}"


def _facts(found: ScalingLimits, rows: Sequence[Row]) -> tuple[Fact, ...]:
    base = f"of {100 * found.base_utilization:.1f} %"
    facts = [
        Fact(f"keeps {share:.0%} {base}", f"runs of at most {flops:.1e} FLOP")
        for share, flops in found.kept_flops
    ]
    differences = [abs(ours.utilization - theirs) for ours, theirs in rows if theirs is not None]
    if differences:
        mean, farthest = sum(differences) / len(differences), max(differences)
        off = f"{100 * farthest:.1f} points off at most, {100 * mean:.1f} on average"
        facts.append(Fact("published curve", off))
    last = f"no plan ends a run beyond {found.last_flops:.1e} FLOP in time"
    launches = f"launches alone take all of it at {found.latency_wall_flops:.1e} FLOP"
    return (*facts, Fact("latency wall", f"{last}; {launches}"))


def _row(scaled: ScaledRun, published: float | None) -> tuple[Value | Cell, ...]:
    plan = scaled.plan
    degrees = (plan.tensor, plan.pipeline, plan.data, plan.expert) if plan else ()
    points = None if published is None else 100 * (scaled.utilization - published)
    return (
        Cell(f"{scaled.run.flops:.1e}", scaled.run.flops),
        scaled.utilization,
        published,
        None if points is None else Cell(f"{points:+.1f}", points),
        Cell(f"{plan.num_devices:.1e}", plan.num_devices) if plan else Cell("no plan"),
        "·".join(f"{degree:.0f}" for degree in degrees),
        largest_loss(scaled),
    )
