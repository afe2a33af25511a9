"""``perfcast scale --limits``: how far a training run on H100s can scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from perfcast.cli.output import Outputs, write_answer
from perfcast.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.published.data_movement.curve import ScalingLimits
    from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions

    Row = tuple[ScaledRun, float | None]

#: Powers of ten of the training flops that are shown where no published curve is given.
_POWERS = range(24, 33)
#: Runs that a line is drawn through.
_STEPS_A_DECADE = 6


def show_limits(assumed: tuple[str, ...], data: str | None, outputs: Outputs) -> None:
    """Limits of the data-movement model, beside the published curve where a folder holds it.

    Raises:
        InputError: An assumption that is none.
    """
    from perfcast.published.data_movement.curve import draw_curve, find_limits, read_published_curve
    from perfcast.published.data_movement.layer import H100_SXM5
    from perfcast.report.documents.limits import document_of

    assumptions = parse_assumptions(assumed)
    published = read_published_curve(data) if data else []
    flops = [value for value, _ in published] or [10.0**power for power in _POWERS]
    found = find_limits(H100_SXM5, assumptions)
    theirs: list[float | None] = [value for _, value in published] or [None] * len(flops)
    rows = list(zip(draw_curve(flops, H100_SXM5, assumptions), theirs, strict=True))
    steps = range(_STEPS_A_DECADE * (_POWERS[-1] - _POWERS[0]) + 1) if outputs.draws else ()
    fine = [10.0 ** (_POWERS[0] + step / _STEPS_A_DECADE) for step in steps]
    curve = draw_curve(fine, H100_SXM5, assumptions)
    write_answer(
        outputs,
        lambda: document_of(found, assumptions, rows, curve),
        lambda: _to_dict(found, assumptions, rows),
    )


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
