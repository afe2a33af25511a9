"""The notebook's four values and the paper's limits beside ours, and the curve where its table is at hand.

Erdil and Schneider-Joseph (Epoch AI), "Data movement limits to frontier model training", arXiv 2411.01137.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.published.comparison import Comparison, Figure, print_comparison
from perfcast.published.data_movement.curve import draw_curve, find_limits, read_published_curve
from perfcast.published.data_movement.layer import H100_SXM5, published_seconds
from perfcast.published.data_movement.limits import ScalingAssumptions

PAPER = (
    'Erdil and Schneider-Joseph (Epoch AI), "Data movement limits to frontier model training", '
    "arXiv 2411.01137 (2024), and its notebook"
)
#: The paper's headline, of a three-month run: where linear scaling ends, and the latency wall.
LINEAR_FLOPS, WALL_FLOPS = 2e28, 2e31
_DIGITS = 17  # of a double


@dataclass(frozen=True)
class CurveDistance:
    """How far a curve lies from the published one, in points of utilization."""

    mean_points: float
    largest_points: float


def compare(data: Path | None = None) -> Comparison:
    """The notebook's values, the limits, and with ``data`` the curve.

    Raises:
        InputError: The folder does not hold the published curve.
    """
    figures = [
        Figure(what=f"layer on an H100, {one.name}", published=one.seconds, ours=one.compute(), unit="s",
               where="notebook", digits=_DIGITS)
        for one in published_seconds()
    ]  # fmt: skip
    figures += _limit_figures()
    if data is not None:
        figures += _curve_figures(read_published_curve(data))
    return Comparison(
        system="data_movement",
        paper=PAPER,
        protocol="The layer by the notebook's formulas. Limits by a search over plans of our own, since the "
        "paper's is not published; its free variables were chosen with the published curve in view.",
        figures=tuple(figures),
        reason="" if data else "The curve of utilization is compared with --data DIR (published/).",
    )


def _limit_figures() -> list[Figure]:
    limits = find_limits(H100_SXM5, ScalingAssumptions())
    (_, eighty), (_, half) = limits.kept_flops
    kept = "the paper's end of linear scaling is no share of utilization; ours keeps 80 % up to here"
    return [
        Figure(what="linear scaling of three months ends", published=LINEAR_FLOPS, ours=eighty, unit="FLOP",
               where="abstract", note=kept, digits=2),
        Figure(what="largest run that keeps half of its utilization", published=None, ours=half, unit="FLOP",
               digits=2),
        Figure(what="no run beyond", published=WALL_FLOPS, ours=limits.last_flops, unit="FLOP",
               where="abstract", note="the paper's latency wall; ours is the last run that any plan ends in "
               "three months, with latencies of our own", digits=2),
    ]  # fmt: skip


def _curve_figures(curve: list[tuple[float, float]]) -> list[Figure]:
    ours = _utilizations(curve, ScalingAssumptions())
    return [
        Figure(what=f"utilization of a run of {flops:.1e} FLOP", published=100 * theirs, ours=100 * found,
               unit="%", where="figure of the utilization", digits=3)
        for (flops, theirs), found in zip(curve, ours, strict=True)
    ]  # fmt: skip


def _utilizations(curve: list[tuple[float, float]], assumptions: ScalingAssumptions) -> list[float]:
    return [run.utilization for run in draw_curve([flops for flops, _ in curve], H100_SXM5, assumptions)]


def measure_distance(curve: list[tuple[float, float]], assumptions: ScalingAssumptions) -> CurveDistance:
    """How far ours lies from ``curve``, (training flops, utilization)."""
    theirs: Floats = np.array([utilization for _, utilization in curve])
    apart = 100 * np.abs(np.array(_utilizations(curve, assumptions)) - theirs)
    return CurveDistance(float(apart.mean()), float(apart.max()))


if __name__ == "__main__":
    print_comparison(compare)
