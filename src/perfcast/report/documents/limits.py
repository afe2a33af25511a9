"""Limits of the data-movement model: how large a run can be before moving data costs its utilization."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.published.data_movement.curve import ScalingLimits, largest_loss
from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions
from perfcast.report.document import Cell, Column, Document, Fact, Note, Section, Table
from perfcast.report.values import Value

#: A run, and the published utilization of one so large, where it is known.
Row = tuple[ScaledRun, float | None]


def document_of(found: ScalingLimits, assumptions: ScalingAssumptions, rows: Sequence[Row]) -> Document:
    """Utilization by the size of the run, and where it ends."""
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
        blocks=(Section(blocks=(table, Note(note))),),
    )


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
