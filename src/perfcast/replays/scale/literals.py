"""Literals among a call's arguments that are sizes: which of them follow the batch.

What reshapes says where the batch goes; what cuts along a dimension that carries the batch cuts at other
places; what makes a tensor out of nothing is decided by the caller. For other operators, the fewest sizes
are changed with which the operator can be run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from perfcast.replays.program.program import Argument, ReplayCall
from perfcast.replays.program.schema_text import parse_schema
from perfcast.replays.scale.layout import BatchChange, Carried, carried_after_view

#: One number among the arguments: place of the argument, and in its list (``None``: it is no list).
Place: TypeAlias = "tuple[int, int | None]"

RESHAPES = frozenset({"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::_reshape_alias"})
EXPANDS = frozenset({"aten::expand", "aten::broadcast_to"})
#: Operators that put a gradient into zeros of literal sizes; those that keep the dimension that they cut.
SPREADS = frozenset(
    {"aten::select_backward", "aten::slice_backward", "aten::value_selecting_reduction_backward"}
)
_KEEPING_BACKWARDS = frozenset({"aten::slice_backward"})
_SIZES = frozenset({"size", "sizes", "shape", "self_size", "self_sizes", "input_size", "input_sizes",
                    "output_size", "N", "repeats", "length", "end"})  # fmt: skip
_CUTS = frozenset({"start", "end", "length", "split_size", "split_sizes"})
#: An end that means 'all the rest'.
_ALL = 2**62
_MOST_TRIES = 128


def size_places(call: ReplayCall) -> list[Place]:
    """The numbers among the arguments that say how large something is."""
    return [place for place, _ in _numbers_named(call, _SIZES)]


def is_factory(call: ReplayCall) -> bool:
    """Whether a call makes a tensor whose sizes are all literals."""
    name = call.operator.partition("::")[2]
    has_tensor = any(argument.is_tensor for argument in parse_schema(call.schema).arguments)
    return bool(size_places(call)) and (not has_tensor or name.startswith("new_"))


def with_scaled(call: ReplayCall, places: Sequence[Place], batch: BatchChange) -> ReplayCall:
    """The call with the numbers at these places scaled."""
    wanted = set(places)

    def changed(index: int, argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(
                batch.scaled(item) if (index, inner) in wanted and isinstance(item, int) else item
                for inner, item in enumerate(argument)
            )
        return batch.scaled(argument) if (index, None) in wanted and isinstance(argument, int) else argument

    return replace(call, arguments=tuple(changed(i, one) for i, one in enumerate(call.arguments)))


def reshaped(
    call: ReplayCall, old: Sequence[int], carried: Carried, new: Sequence[int], batch: BatchChange
) -> ReplayCall:
    """A reshape's sizes, where the batch goes; ``new`` are the recorded sizes of what it makes."""
    moved = carried_after_view(old, carried, new, batch)
    places: list[Place] = [
        place for place, value in _numbers_named(call, {"size", "shape"}) if value != -1 and place[1] in moved
    ]
    return with_scaled(call, places, batch)


def unflattened(call: ReplayCall, carried: Carried, batch: BatchChange) -> ReplayCall | None:
    """``aten::unflatten``: the part that carries the batch; ``None`` where the dimension carries none."""
    found = list(_numbers_named(call, {"sizes"}))
    dim = _whole(call, "dim")
    if dim is None or dim not in carried or any(value < 1 for _, value in found):
        return None
    sizes = [value for _, value in found]
    total = 1
    for size in sizes:
        total *= size
    moved = carried_after_view([total], {0: carried[dim]}, sizes, batch)
    return with_scaled(call, [place for place, _ in found if place[1] in moved], batch)


def cut(call: ReplayCall, carried: Carried, num_dims: int, batch: BatchChange) -> ReplayCall:
    """What cuts along a dimension that carries the batch cuts at the same fractions of it."""
    dim = _whole(call, "dim")
    if dim is None or dim % max(num_dims, 1) not in carried:
        return call
    places = [place for place, value in _numbers_named(call, _CUTS) if 0 < abs(value) < _ALL]
    return with_scaled(call, places, batch)


def spread(call: ReplayCall, carried: Carried, batch: BatchChange) -> ReplayCall:
    """What puts a gradient back where it was taken from: sizes follow those of the gradient."""
    dim = _whole(call, "dim") or 0
    found = list(_numbers_named(call, {"input_sizes", "sizes"}))
    dim %= max(len(found), 1)
    is_dropped = call.operator not in _KEEPING_BACKWARDS

    def of_gradient(position: int) -> int:
        return position - 1 if is_dropped and position > dim else position

    places: list[Place] = [
        place
        for position, (place, _) in enumerate(found)
        if not (is_dropped and position == dim) and of_gradient(position) in carried
    ]
    return cut(with_scaled(call, places, batch), {} if is_dropped else carried, len(found), batch)


def attempts(call: ReplayCall, batch: BatchChange) -> Iterator[ReplayCall]:
    """The call as it is, then with ever more of its sizes scaled, those that are the batch itself first."""
    yield call
    found = [
        (value != batch.recorded, place)
        for place, value in _numbers_named(call, _SIZES)
        if batch.divides(value) and value < _ALL
    ]
    places = [place for _, place in sorted(found, key=lambda one: one[0])]
    tries = 0
    for count in range(1, len(places) + 1):
        for chosen in combinations(places, count):
            tries += 1
            if tries > _MOST_TRIES:
                return
            yield with_scaled(call, chosen, batch)


def _numbers_named(call: ReplayCall, names: frozenset[str] | set[str]) -> Iterator[tuple[Place, int]]:
    if not call.schema:
        return
    for index, (described, value) in enumerate(
        zip(parse_schema(call.schema).arguments, call.arguments, strict=False)
    ):
        if described.name not in names or isinstance(value, bool):
            continue
        if isinstance(value, int):
            yield (index, None), value
        elif isinstance(value, tuple):
            for inner, item in enumerate(value):
                if isinstance(item, int) and not isinstance(item, bool):
                    yield (index, inner), item


def _whole(call: ReplayCall, name: str) -> int | None:
    place = parse_schema(call.schema).place(name) if call.schema else None
    if place is None or place >= len(call.arguments):
        return None
    value = call.arguments[place]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number_at(call: ReplayCall, place: Place) -> int:
    """The number at a place; 0 where none stands there."""
    index, inner = place
    value = call.arguments[index]
    if inner is not None:
        value = value[inner] if isinstance(value, tuple) else None
    return value if isinstance(value, int) else 0
