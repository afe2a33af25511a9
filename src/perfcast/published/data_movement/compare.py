"""The notebook's four values and the paper's limits beside ours, and the curve where its table is at hand.

Erdil and Schneider-Joseph (Epoch AI), "Data movement limits to frontier model training", arXiv 2411.01137.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.published.comparison import Comparison, Figure, Plot, Series, print_comparison
from perfcast.published.data_movement.curve import ScalingLimits, find_limits, read_published_curve
from perfcast.published.data_movement.layer import H100_SXM5, published_seconds
from perfcast.published.data_movement.limits import ScalingAssumptions, scale_run

PAPER = (
    'Erdil and Schneider-Joseph (Epoch AI), "Data movement limits to frontier model training", '
    "arXiv 2411.01137 (2024), and its notebook"
)
#: The abstract's headline, of a three-month run: where linear scaling ends, and the latency wall.
LINEAR_FLOPS, WALL_FLOPS = 2e28, 2e31
_DIGITS = 8
#: Points of a decade that a drawn line goes through, and the decades.
_STEPS, _FIRST, _LAST = 3, 25, 32

#: Ours, chosen with the published curve in view.
CHOSEN = ScalingAssumptions()
#: The same with what the notebook itself states: base utilization 0.8 (and words of two bytes and layers five
#: times as wide as long, which ours have too). The notebook is of one layer: nothing else of ours is in it.
NOTEBOOK = replace(CHOSEN, base_utilization=H100_SXM5.base_utilization)
SETS = {"chosen parameters": CHOSEN, "notebook's parameters": NOTEBOOK}

#: (training flops, utilization) of each run.
CurvePoints = list[tuple[float, float]]


@dataclass(frozen=True)
class CurveDistance:
    """How far a curve lies from the published one, in points of utilization."""

    mean_points: float
    largest_points: float

    def __str__(self) -> str:
        return f"{self.largest_points:.1f} points at most, {self.mean_points:.1f} on average"


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
    curve = [] if data is None else read_published_curve(data)
    ours = {name: _rate(curve, assumptions) for name, assumptions in SETS.items()} if curve else {}
    for name, assumptions in SETS.items():
        figures += _limit_figures(name, assumptions)
    for name, utilizations in ours.items():
        figures += _curve_figures(name, curve, utilizations)
    return Comparison(
        system="data_movement",
        paper=PAPER,
        protocol="The layer by the notebook's formulas. Limits by a search over plans of our own, since the "
        "paper's is not published: chosen parameters were chosen with the published curve in view (base "
        "utilization 0.7); the notebook's parameters are the same with its own base utilization, 0.8.",
        figures=tuple(figures),
        notes=tuple(
            f"utilization, {name}: {measure_distance(curve, found)} from the published curve"
            for name, found in ours.items()
        ),
        reason="" if data else "The curve of utilization is compared with --data DIR (published/).",
        plots=(_plot(curve),) if curve else (),
    )


def _limit_figures(name: str, assumptions: ScalingAssumptions) -> list[Figure]:
    limits = _limits(assumptions)
    (_, eighty), (_, half) = limits.kept_flops
    return [
        Figure(what=f"linear scaling of three months ends, {name}", published=LINEAR_FLOPS, ours=eighty,
               unit="FLOP", where="abstract", digits=2,
               note="the paper's end is no share of utilization; ours keeps 80 % of its own up to here"),
        Figure(what=f"half of the utilization is kept, {name}", published=None, ours=half, unit="FLOP",
               digits=2),
        Figure(what=f"no run beyond, {name}", published=WALL_FLOPS, ours=limits.last_flops, unit="FLOP",
               where="abstract", digits=2,
               note="the paper's latency wall; ours is the last run that any plan ends in three months"),
    ]  # fmt: skip


def _curve_figures(name: str, curve: CurvePoints, ours: Sequence[float]) -> list[Figure]:
    return [
        Figure(what=f"utilization at {flops:.1e} FLOP, {name}", published=100 * theirs, ours=100 * found,
               unit="%", where="figure of the utilization", digits=3)
        for (flops, theirs), found in zip(curve, ours, strict=True)
    ]  # fmt: skip


@cache
def _limits(assumptions: ScalingAssumptions) -> ScalingLimits:
    return find_limits(H100_SXM5, assumptions)


@cache
def _utilization(flops: float, assumptions: ScalingAssumptions) -> float:
    return scale_run(flops, H100_SXM5, assumptions).utilization


def _rate(curve: CurvePoints, assumptions: ScalingAssumptions) -> list[float]:
    return [_utilization(flops, assumptions) for flops, _ in curve]


def _plot(curve: CurvePoints) -> Plot:
    """The published points, and a line for each set of parameters."""
    flops = [10 ** (_FIRST + step / _STEPS) for step in range(_STEPS * (_LAST - _FIRST) + 1)]
    lines = [
        Series(
            name=f"ours, {name}",
            points=tuple((value, _utilization(value, assumptions)) for value in flops),
            is_line=True,
        )
        for name, assumptions in SETS.items()
    ]
    return Plot(
        name="utilization over training compute",
        x_title="training compute (FLOP)",
        y_title="utilization",
        y_unit="share",
        series=(*lines, Series(name="published", points=tuple(curve))),
    )


def measure_distance(curve: CurvePoints, utilizations: Sequence[float]) -> CurveDistance:
    """How far ``utilizations`` lie from those of ``curve``, run by run."""
    theirs: Floats = np.array([utilization for _, utilization in curve])
    apart = 100 * np.abs(np.array(utilizations) - theirs)
    return CurveDistance(float(apart.mean()), float(apart.max()))


if __name__ == "__main__":
    print_comparison(compare)
