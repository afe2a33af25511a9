"""Operators whose results are as many as data say: what their arguments have to hold for the recorded count.

A mask with as many trues, numbers of which so many differ, repeats that add up to so many: with them the call
itself gives what was recorded. Where no filling decides the count, the result is given instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from perfcast.replays.fill.rules import Need, View
from perfcast.replays.program.program import Fill, Filling
from perfcast.traces.events import NONE

#: Operators whose results are as many as the data say.
DATA_DEPENDENT = frozenset(
    {"nonzero", "nonzero_numpy", "argwhere", "where", "masked_select", "_unique", "_unique2", "unique_dim",
     "unique_consecutive", "unique_dim_consecutive", "bincount", "one_hot", "repeat_interleave",
     "_pack_padded_sequence", "nms"}
)  # fmt: skip
#: Element types that hold whole numbers as large as those filled in exactly.
_EXACT = ("int", "uint", "float32", "float64", "double", "bool")
_REASON = "as many as came out"


def is_counted(view: View) -> bool:
    """Whether the size of a call's result depends on data."""
    name = view.call.operator.partition("::")[2]
    if name == "where":
        return len(view.call.arguments) == 1
    if name == "one_hot":
        return view.number("num_classes", -1) < 0
    if name == "repeat_interleave":
        return view.slot("repeats") != NONE
    return name in DATA_DEPENDENT


def count_needs(view: View) -> tuple[Need, ...]:
    """What gives a call that is counted its recorded count; nothing where no filling decides it."""
    rule = _RULES.get(view.call.operator.partition("::")[2])
    made = [slot for slot in view.call.outputs if slot != NONE]
    if rule is None or not made or not is_counted(view):
        return ()
    return tuple(rule(view, view.shape(made[0])))


def _mask(view: View, slot: int, trues: float) -> Iterator[Need]:
    if slot != NONE and float(trues).is_integer() and trues <= view.count(slot):
        yield Need(slot, Filling(Fill.MASK, high=int(trues), reason=_REASON))


def _places(view: View, shape: tuple[int, ...]) -> Iterator[Need]:
    """Rows of places: one for each that is not zero."""
    yield from _mask(view, view.slot("self", "condition"), shape[0] if shape else 0)


def _picked(view: View, shape: tuple[int, ...]) -> Iterator[Need]:
    """Elements of two tensors spread over one another, where the mask is true."""
    mask, other = view.shape(view.slot("mask")), view.shape(view.slot("self"))
    width = max(len(mask), len(other))
    sides = [(1,) * (width - len(one)) + one for one in (mask, other)]
    spread = math.prod(map(max, *sides)) if width else 1
    times = spread / max(math.prod(mask), 1)
    yield from _mask(view, view.slot("mask"), (shape[0] if shape else 0) / times if times else 0)


def _different(view: View, shape: tuple[int, ...]) -> Iterator[Need]:
    """So many different numbers, in runs."""
    slot = view.slot("self")
    is_flat = view.value("dim") is None and slot != NONE and len(shape) == 1
    if is_flat and view.slots[slot].dtype.startswith(_EXACT) and 0 < shape[0] <= view.count(slot):
        if view.slots[slot].dtype == "bool":
            yield Need(slot, Filling(Fill.MASK, high=shape[0] - 1, reason=_REASON))
        else:
            yield Need(slot, Filling(Fill.OFFSETS, high=shape[0], reason=_REASON))


def _largest(view: View, size: int, least: int) -> Iterator[Need]:
    """Numbers from 0 whose largest is one below a size; any below it where the size is given anyway."""
    slot = view.slot("self")
    if not view.is_whole(slot) or not view.count(slot):
        return
    if size <= least:
        yield Need(slot, Filling(Fill.UNIFORM, high=max(size - 1, 0), reason=_REASON))
    elif size == 1 or view.count(slot) > 1:
        yield Need(slot, Filling(Fill.OFFSETS, high=size - 1, has_last=True, reason=_REASON))


def _bins(view: View, shape: tuple[int, ...]) -> Iterator[Need]:
    yield from _largest(view, shape[0] if shape else 0, view.number("minlength"))


def _classes(view: View, shape: tuple[int, ...]) -> Iterator[Need]:
    yield from _largest(view, shape[-1] if shape else 0, 0)


def _repeats(view: View, shape: tuple[int, ...]) -> Iterator[Need]:
    """Repeats that add up to what came out, evenly."""
    slot = view.slot("repeats")
    at = view.number("dim") if view.slot("self") != NONE else 0
    is_there = view.is_whole(slot) and view.count(slot) > 0 and -len(shape) <= at < len(shape)
    if not is_there:
        return
    total = shape[at]
    if view.count(slot) == 1 and view.slot("self") != NONE:
        rows = view.shape(view.slot("self"))
        total = total // max(rows[at] if rows else 1, 1)
    yield Need(slot, Filling(Fill.MASK, high=total, reason="repeats that add up to what came out"))


_Rule = Callable[[View, tuple[int, ...]], Iterator[Need]]
_RULES: Mapping[str, _Rule] = {
    "nonzero": _places,
    "nonzero_numpy": _places,
    "argwhere": _places,
    "where": _places,
    "masked_select": _picked,
    "_unique": _different,
    "_unique2": _different,
    "unique_consecutive": _different,
    "bincount": _bins,
    "one_hot": _classes,
    "repeat_interleave": _repeats,
}
