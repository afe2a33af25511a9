"""Parallel coordinates: an axis for each dimension in which plans differ, a line for each plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.plans.table import FLAGS, WORDS, PlanTable
from perfcast.core.plans.text import format_plan
from perfcast.report import palette
from perfcast.report.documents.search.figures import sample_plans
from perfcast.report.figure import Figure, Parallel, ParallelAxis, Strands
from perfcast.searches.result import SearchResult
from perfcast.searches.space.fixed import KEYS
from perfcast.units import GIB

#: Plans that are drawn.
MAX_LINES = 300
#: Colours of the lines from the slowest share of them to the fastest.
_SHADES = ("#c9ced6", "#b4bfd0", "#92add0", "#6a99cc", "#3b82c4", "#1f4e7d")
_DIMENSIONS = (
    "data_parallel",
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "virtual_stages_per_rank",
    "stage_layers",
    "micro_batch_size",
    "zero_stage",
    "num_shards",
    "sequence_parallel",
    "recompute",
    "recompute_layers",
    "schedule",
    "offload",
    "order",
)
_LINEAR = ("zero_stage", "recompute_layers", "stage_layers", *WORDS, *FLAGS)
_STAGES = ("even", "uneven")


@dataclass(frozen=True)
class Dimension:
    """One axis.

    Attributes:
        heights: Of each plan's line on it, from 0 to 1.
        ticks: Height and text of what is written beside it.
    """

    title: str
    heights: Floats
    ticks: tuple[tuple[float, str], ...]


def coordinates_figure(result: SearchResult) -> Figure:
    """Plans from the slowest, pale, to the fastest, dark; the winner on top."""
    shown = _drawn(result)
    axes = list_axes(result, shown)
    bounds = np.linspace(0, len(shown), len(_SHADES) + 1).round().astype(np.int64)
    stretches = zip(_SHADES, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    strands = [_strands(axes, range(start, stop), shade) for shade, start, stop in stretches]
    winner = _strands(axes, [len(shown) - 1], palette.GREEN, width=3, opacity=1.0, hover=_option(result))
    parallel = Parallel(
        axes=tuple(ParallelAxis(axis.title, axis.ticks) for axis in axes), strands=(*strands, winner)
    )
    return Figure(name="coordinates", series=(parallel,), height=420)


def _drawn(result: SearchResult) -> Integers:
    """Places of plans in the order of drawing: from the slowest to the fastest, then the winner."""
    shown = sample_plans(result.evaluation.step_seconds, MAX_LINES)[::-1]
    winner = result.place_of(result.winner.plan)
    return shown if winner is None else np.append(shown[shown != winner], winner)


def list_axes(result: SearchResult, shown: Integers) -> list[Dimension]:
    """The dimensions that are not the same for all shown plans, then memory and time."""
    plans, evaluation = result.evaluation.plans, result.evaluation
    axes = []
    names = {name: key for key, name in KEYS.items()}
    for name in _DIMENSIONS:
        values = _values(plans, name)[shown]
        if len(np.unique(values)) > 1:
            axes.append(_dimension(name, names[name], values))
    axes.append(_figure_axis("GiB", evaluation.device_bytes[shown] / GIB, "{:.0f}"))
    axes.append(_figure_axis("step, s", np.log(evaluation.step_seconds[shown]), "{:.3g}", is_log=True))
    return axes


def _values(plans: PlanTable, name: str) -> Floats:
    """A dimension as it is drawn; what a column holds as 0 for 'all' or 'as the framework does' is resolved.

    Layers to recompute: infinite for all, 0 for none. Shards: of all replicas, unless no plan has fewer.
    """
    if name == "stage_layers":
        return (plans.split > 0).astype(np.float64)
    values: Floats = getattr(plans, name).astype(np.float64)
    if name == "recompute_layers":
        is_whole = (values == 0) & (plans.recompute == WORDS["recompute"].index("full"))
        return np.where(is_whole & bool(values.any()), np.inf, values)
    if name == "num_shards" and values.any():
        return np.where(values == 0, plans.data_parallel * plans.context_parallel, values)
    return values


def _dimension(name: str, title: str, values: Floats) -> Dimension:
    """Degrees by their logarithm, words, flags and layers evenly; 'all' one step above the rest."""
    different = np.unique(values)
    finite = different[np.isfinite(different)]
    top = finite.max() + 1
    scaled, ends = (np.where(np.isinf(one), top, one) for one in (values, different))
    if name not in _LINEAR:
        scaled, ends = np.log2(scaled), np.log2(ends)
    low, span = ends.min(), np.ptp(ends)
    texts = [_value_text(name, value) for value in different.tolist()]
    return Dimension(title, (scaled - low) / span, _spaced(((ends - low) / span).tolist(), texts))


def _value_text(name: str, value: float) -> str:
    if name == "stage_layers":
        return _STAGES[int(value)]
    if name == "order":
        first, second, *others = WORDS[name][int(value)].split("-")
        return f"{first}-{second}-\n{'-'.join(others)}"  # else it reaches the next axis
    if name in WORDS:
        return WORDS[name][int(value)].replace("_", " ")
    return "all" if np.isinf(value) else f"{value:g}"


def _spaced(heights: Sequence[float], texts: Sequence[str]) -> tuple[tuple[float, str], ...]:
    """Ticks that do not overlap."""
    kept: list[tuple[float, str]] = []
    for height, text in zip(heights, texts, strict=True):
        if not kept or height - kept[-1][0] >= 0.05:
            kept.append((height, text))
    return tuple(kept)


def _figure_axis(title: str, values: Floats, form: str, *, is_log: bool = False) -> Dimension:
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    marks = [low + part * span for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    texts = [form.format(np.exp(mark) if is_log else mark) for mark in marks]
    ticks = tuple(((mark - low) / span, text) for mark, text in zip(marks, texts, strict=True))
    return Dimension(title, (values - low) / span, ticks)


def _option(result: SearchResult) -> str:
    return f"winner\n{format_plan(result.winner.plan)}"


def _strands(
    axes: Sequence[Dimension],
    places: Sequence[int],
    colour: str,
    *,
    width: float = 1,
    opacity: float = 0.6,
    hover: str = "",
) -> Strands:
    """Some plans' lines."""
    lines = tuple(tuple(float(axis.heights[place]) for axis in axes) for place in places)
    return Strands(lines=lines, colour=colour, width=width, opacity=opacity, hover=hover)
