"""What operators do to whole numbers: hand them on unchanged, or make them within known bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from perfcast.replays.fill.rules import View
from perfcast.replays.program.program import slots_in
from perfcast.traces.events import NONE


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whole numbers between two bounds, both included; ``is_rising``: none is below the one before it."""

    low: float
    high: float
    is_rising: bool = False


#: Results hold values of these arguments, somehow arranged.
_CARRIED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("to", "_to_copy", "clone", "contiguous", "reshape", "_reshape_copy", "repeat", "flatten", "flip",
         "roll", "pin_memory", "_pin_memory", "index_select", "gather", "index", "lift_fresh", "detach",
         "alias", "expand", "permute", "transpose", "slice", "select", "narrow", "squeeze", "unsqueeze",
         "view", "_unsafe_view", "long", "int", "cpu", "cuda", "take_along_dim", "take", "masked_select",
         "wait_tensor", "split", "chunk", "unbind", "split_with_sizes", "t", "resolve_conj", "resolve_neg",
         "narrow_copy", "select_copy", "slice_copy", "expand_copy", "view_copy", "as_strided"),
        ("self",),
    ),
    "cat": ("tensors",),
    "concat": ("tensors",),
    "stack": ("tensors",),
    "where": ("self", "other"),
}  # fmt: skip


def carried_slots(view: View) -> tuple[int, ...] | None:
    """The slots whose values a call's results hold; ``None`` where it computes them."""
    names = _CARRIED.get(view.call.operator.partition("::")[2])
    if names is None:
        return None
    slots = [slot for name in names for slot in (view.slot(name), *view.list(name))]
    if not any(slot != NONE for slot in slots):
        slots = list(slots_in(view.call.arguments))[:1]
    return tuple(slot for slot in slots if slot != NONE) or None


def _numbers(view: View, *names: str) -> list[float]:
    values = (view.value(name) for name in names)
    return [value for value in values if isinstance(value, int | float) and math.isfinite(value)]


def _random_numbers(view: View) -> Bounds | None:
    high = _numbers(view, "high")
    low = _numbers(view, "low")
    return Bounds(low[0] if low else 0, high[0] - 1) if high else None


def _range(view: View) -> Bounds | None:
    end = _numbers(view, "end")
    start, step = _numbers(view, "start") or [0], _numbers(view, "step") or [1]
    if not end:
        return None
    low, high = min(start[0], end[0]), max(start[0], end[0] - 1)
    return Bounds(low, max(low, high), is_rising=step[0] >= 0)


def _order_of_all(view: View) -> Bounds | None:
    count = _numbers(view, "n")
    return Bounds(0, max(count[0] - 1, 0)) if count else None


def _filled(view: View) -> Bounds | None:
    value = _numbers(view, "fill_value", "value")
    return Bounds(value[0], value[0], is_rising=True) if value else None


def _places_of(view: View) -> Bounds | None:
    """Places along a dimension: what finds the largest, or sorts, counts them; values are no places."""
    shape = view.shape(view.slot("self"))
    dimension = view.value("dim")
    if view.is_whole(view.slot("self")) or (dimension is None and view.call.operator in _VALUES_ALONE):
        return None
    if type(dimension) is int and shape and -len(shape) <= dimension < len(shape):
        return Bounds(0, max(shape[dimension] - 1, 0))
    return Bounds(0, max(math.prod(shape) - 1, 0))


def _pooled(view: View) -> Bounds | None:
    return Bounds(0, max(math.prod(view.shape(view.slot("self"))[-2:]) - 1, 0))


def _remainder(view: View) -> Bounds | None:
    other = _numbers(view, "other")
    return Bounds(0, other[0] - 1) if other and other[0] >= 1 else None


def _clamped(view: View) -> Bounds | None:
    low, high = _numbers(view, "min"), _numbers(view, "max")
    return Bounds(low[0], high[0]) if low and high else None


def _bag_numbers(view: View) -> Bounds | None:
    """Bounds of what ``_embedding_bag`` makes: bags of lookups, their sizes, rows of the largest."""
    bags = view.count(view.slot("offsets"))
    return Bounds(0, max(bags - 1, 0), is_rising=True)


#: Without a dimension these give values, not places.
_VALUES_ALONE = ("aten::max", "aten::min")
Effect = Callable[[View], "Bounds | None"]


@cache
def _effects() -> Mapping[str, Effect]:
    """Effects by the operators' names without their namespace."""
    zeros: Effect = lambda _: Bounds(0, 0, is_rising=True)  # noqa: E731
    ones: Effect = lambda _: Bounds(1, 1, is_rising=True)  # noqa: E731
    return {
        **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero_", "zero"), zeros),
        **dict.fromkeys(("ones", "ones_like", "new_ones"), ones),
        **dict.fromkeys(("full", "full_like", "new_full", "fill_", "fill"), _filled),
        **dict.fromkeys(("randint", "randint_like"), _random_numbers),
        **dict.fromkeys(("arange", "range"), _range),
        **dict.fromkeys(("argmax", "argmin", "argsort", "sort", "topk", "max", "min", "mode", "kthvalue"),
                        _places_of),
        **dict.fromkeys(("clamp", "clamp_", "clip"), _clamped),
        "randperm": _order_of_all,
        "max_pool2d_with_indices": _pooled,
        "remainder": _remainder,
        "remainder_": _remainder,
        "_embedding_bag": _bag_numbers,
        "embedding_bag": _bag_numbers,
        "_embedding_bag_forward_only": _bag_numbers,
    }  # fmt: skip


def made_bounds(view: View) -> Bounds | None:
    """The bounds of the whole numbers that a call makes; ``None`` where they are not known."""
    effect = _effects().get(view.call.operator.partition("::")[2])
    return effect(view) if effect is not None else None
