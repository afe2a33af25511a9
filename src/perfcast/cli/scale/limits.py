"""``perfcast scale --limits``: how far a training run on H100s can scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from perfcast.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.published.data_movement.curve import ScalingLimits
    from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions

    Row = tuple[ScaledRun, float | None]

#: Powers of ten of the training flops that are shown where no published curve is given.
_POWERS = range(24, 33)


def show_limits(assumed: tuple[str, ...], data: str | None, json_path: str | None) -> None:
    """Limits of the data-movement model, beside the published curve where a folder holds it.

    Raises:
        InputError: An assumption that is none.
    """
    from rich.console import Console

    from perfcast.published.data_movement.curve import draw_curve, find_limits, read_published_curve
    from perfcast.published.data_movement.layer import H100_SXM5
    from perfcast.report.json_format import write_json

    assumptions = parse_assumptions(assumed)
    published = read_published_curve(data) if data else []
    flops = [value for value, _ in published] or [10.0**power for power in _POWERS]
    found = find_limits(H100_SXM5, assumptions)
    theirs: list[float | None] = [value for _, value in published] or [None] * len(flops)
    rows = list(zip(draw_curve(flops, H100_SXM5, assumptions), theirs, strict=True))
    if json_path:
        write_json(_to_dict(found, assumptions, rows), json_path)
    if json_path != "-":
        _print_limits(found, assumptions, rows, Console(highlight=False))


def parse_assumptions(texts: tuple[str, ...]) -> ScalingAssumptions:
    """``('batch_exponent=0.33',)`` → the assumptions; what is not named keeps its default.

    Raises:
        InputError: Not NAME=NUMBER, or a number that no run can have.
        UnknownNameError: No free variable of that name.
    """
    from dataclasses import fields

    from perfcast.published.data_movement.limits import ScalingAssumptions

    names = [field.name for field in fields(ScalingAssumptions)]
    values: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in names:
            raise UnknownNameError("free variable", name, names, f"Known: {', '.join(names)}.")
        try:
            values[name] = float(number)
        except ValueError:
            raise InputError(f"--assume: '{text}' is not NAME=NUMBER") from None
    return ScalingAssumptions(**values)


def _to_dict(found: ScalingLimits, assumptions: ScalingAssumptions, rows: list[Row]) -> dict[str, Any]:
    from dataclasses import asdict

    def finite(flops: float) -> float | None:
        return flops if math.isfinite(flops) else None

    return {
        "assumptions": asdict(assumptions),
        "base_utilization": found.base_utilization,
        "largest_flops_keeping": {str(share): finite(flops) for share, flops in found.kept_flops},
        "last_flops": finite(found.last_flops),
        "latency_wall_flops": finite(found.latency_wall_flops),
        "curve": [_row_to_dict(scaled, published) for scaled, published in rows],
    }


def _row_to_dict(scaled: ScaledRun, published: float | None) -> dict[str, Any]:
    from dataclasses import asdict

    from perfcast.published.data_movement.curve import largest_loss

    return {
        "training_flops": scaled.run.flops,
        "num_parameters": scaled.run.num_parameters,
        "utilization": scaled.utilization,
        "published_utilization": published,
        "num_devices": scaled.plan and scaled.plan.num_devices,
        "plan": scaled.plan and asdict(scaled.plan),
        "step_seconds": scaled.time and float(scaled.time.seconds),
        "largest_loss": largest_loss(scaled),
    }


def _print_limits(
    found: ScalingLimits, assumptions: ScalingAssumptions, rows: list[Row], console: Console
) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("FLOP", "Ours", "Published", "Points", "Devices", "Tensor·pipe·data·expert"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Loss", no_wrap=True)
    console.print("utilization of a training run on H100s, and what its steps wait for most")
    for scaled, published in rows:
        table.add_row(*_describe_row(scaled, published))
    console.print(table)
    differences = [abs(ours.utilization - theirs) for ours, theirs in rows if theirs is not None]
    if differences:
        mean = sum(differences) / len(differences)
        farthest = max(differences)
        console.print(
            f"published curve: {100 * farthest:.1f} points off at most, {100 * mean:.1f} on average"
        )
    for share, flops in found.kept_flops:
        console.print(f"largest run that keeps {share:.0%} of {found.base_utilization:.1%}: {flops:.1e} FLOP")
    console.print(f"latency wall: no plan ends a run beyond {found.last_flops:.1e} FLOP in time;")
    console.print(f"  launches alone take all of it at {found.latency_wall_flops:.1e} FLOP")
    free = ", ".join(f"{name}={value:.4g}" for name, value in vars(assumptions).items())
    console.print(
        f"free variables (--assume NAME=VALUE; defaults chosen to lie near the published curve): {free}"
    )


def _describe_row(scaled: ScaledRun, published: float | None) -> list[str]:
    from perfcast.published.data_movement.curve import largest_loss

    plan = scaled.plan
    degrees = (plan.tensor, plan.pipeline, plan.data, plan.expert) if plan else ()
    return [
        f"{scaled.run.flops:.1e}",
        f"{scaled.utilization:.1%}",
        "" if published is None else f"{published:.1%}",
        "" if published is None else f"{100 * (scaled.utilization - published):+.1f}",
        f"{plan.num_devices:.1e}" if plan else "no plan",
        "·".join(f"{degree:.0f}" for degree in degrees),
        largest_loss(scaled),
    ]
