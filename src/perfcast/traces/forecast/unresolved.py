"""Sizes of which a recording does not show whether they follow the batch: what they carry and could do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from perfcast.core.operation import Operation
from perfcast.traces.forecast.batch import BatchChange
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import UNRESOLVED, Ratios
from perfcast.traces.scaling.scaling import End
from perfcast.units import format_seconds

#: Sizes that notes name, those that carry the most.
_NAMED = 3
Operations = Sequence["Operation | None"]


@dataclass(frozen=True, slots=True)
class UnresolvedSize:
    """A size, or how often a loop runs, of which nothing recorded decides whether it follows the batch.

    Attributes:
        what: Where it came from, in words.
        size: As recorded; 0 of operators that the recording with shapes does not hold.
        follows: Whether the forecast takes it to follow the batch.
        seconds: Recorded time of the work whose sizes it decides, a step.
    """

    what: str
    size: int
    follows: bool
    seconds: float


def widened(
    change: BatchChange,
    rows: Sequence[int],
    operation_at: Callable[[RecordedOperations, int], Operation | None],
    parents: RecordedOperations,
    ratios: Ratios,
    ratios_of: Callable[[Operations], Ratios],
) -> Ratios:
    """Ratios whose ends hold what unresolved sizes could do: from nothing of them growing to all.

    Args:
        operation_at: Of a row, among the trace's operations.
        parents: The trace's operations as recorded.
        ratios_of: Ratios of the rows with other operations.
    """
    unknown = np.array([_is_unknown(change, row) for row in rows], dtype=np.bool_)
    assumed = np.array([change.is_open(row) for row in rows], dtype=np.bool_)
    low, high = ratios.low.copy(), ratios.high.copy()
    grown = np.array([change.growth_without_shapes(row) is not None for row in rows], dtype=np.bool_)
    least, most = min(1.0, change.ratio), max(1.0, change.ratio)
    low = np.where(unknown, np.where(grown, np.minimum(low, least), low * least), low)
    high = np.where(unknown, np.where(grown, np.maximum(high, most), high * most), high)
    differs = unknown.copy()
    if assumed.any():
        ends: tuple[End, ...] = ("unscaled", "scaled")
        for end in ends:
            own = RecordedOperations(parents.trace, parents.parents, partial(change.inputs_of, end=end))
            there = ratios_of([operation_at(own, row) for row in rows])
            low, high = np.minimum(low, there.low), np.maximum(high, there.high)
            differs |= assumed & ~np.isclose(there.ratio, ratios.ratio, rtol=1e-3)
    words = [UNRESOLVED if d else word for d, word in zip(differs.tolist(), ratios.provenance, strict=True)]
    return replace(ratios, low=low, high=high, provenance=tuple(words))


def _is_unknown(change: BatchChange, row: int) -> bool:
    if change.trace.events.inputs_of(row) is None:
        return change.growth_without_shapes(row) is not None
    return not change.is_followed(row)


def unresolved_sizes(
    change: BatchChange, rows: Iterable[int], seconds: Sequence[float], num_steps: int
) -> tuple[UnresolvedSize, ...]:
    """The sizes that works with open ratios depend on, those that carry the most first.

    Args:
        rows: Of works whose price is not resolved.
        seconds: Of each, over all steps.
    """
    found: dict[tuple[str, int, bool], float] = {}
    for row, own in zip(rows, seconds, strict=True):
        variables = change.assumed(row)
        keys = [
            (origin.what, origin.size, change.scaling.follows(variable))
            for variable in variables
            for origin in (change.scaling.origin(variable),)
        ] or [_without_origin(change, row)]
        for key in dict.fromkeys(keys):
            found[key] = found.get(key, 0.0) + own / max(num_steps, 1)
    listed = [UnresolvedSize(*key, seconds=own) for key, own in found.items()]
    return tuple(sorted(listed, key=lambda one: -one.seconds))


def _without_origin(change: BatchChange, row: int) -> tuple[str, int, bool]:
    """What stands for an operator's sizes where none of them alone is in doubt."""
    name = change.trace.events.name(row)
    if change.is_open(row):
        grows = change.bytes_ratio(row) != 1.0
        return f"{name}, whose tensors cannot be told from others of their sizes", 0, grows
    return f"{name}, whose sizes could not be followed", 0, False


def describe_unresolved(sizes: Sequence[UnresolvedSize], batch: tuple[int, int]) -> list[str]:
    """One line for each of those that carry the most, and one for the rest."""
    notes = []
    for one in sizes[:_NAMED]:
        taken = "is taken to follow the batch" if one.follows else "is taken to stay"
        times = f", {one.size // batch[0]} × the batch" if one.size and one.size % batch[0] == 0 else ""
        size = f" ({one.size:,}{times})" if one.size else ""
        notes.append(
            f"not resolved: {one.what}{size} {taken}; it decides {format_seconds(one.seconds)} of the "
            "recorded step, and the interval holds both"
        )
    rest = sizes[_NAMED:]
    if rest:
        notes.append(f"not resolved: {len(rest)} more sizes that decide less (JSON lists them)")
    return notes
