"""Numbers among a call's arguments that are sizes: what they are with another batch.

Those that are a result's size follow the result, what cuts cuts at the same pieces; of others the shared
description says what they grow with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfcast.replays.program.program import Argument, ReplayCall
from perfcast.replays.program.schema_text import parse_schema
from perfcast.replays.scale.layout import Resized
from perfcast.traces.scaling.extents import Dim
from perfcast.traces.scaling.primes import Place
from perfcast.traces.scaling.rules import piece
from perfcast.traces.scaling.scaling import Scaling
from perfcast.traces.scaling.sources import SIZES

#: Operators with a place along a dimension: of their argument, or of their result.
_CUTS = frozenset({"aten::slice", "aten::narrow", "aten::narrow_copy"})
_SPREADS = frozenset({"aten::slice_backward", "aten::slice_scatter"})
_SPLITS = frozenset(
    {"aten::split", "aten::split_with_sizes", "aten::unsafe_split", "aten::unsafe_split_with_sizes"}
)
#: An end that means 'all the rest'.
_ALL = 2**62


def scaled_literals(
    call: ReplayCall, index: int, scaling: Scaling, made: Sequence[Resized | None], given: Sequence[Resized],
    dims: Sequence[tuple[Dim, ...]],
) -> ReplayCall:  # fmt: skip
    """The call with its sizes at the wanted batch.

    Args:
        index: Its place in the program.
        made, given: Results (None: nothing is known of one) and tensor arguments, before and after.
        dims: What the first argument's sizes, and the first result's, are made of.
    """
    known = {
        place: scaling.size(dim)
        for place, dim in scaling.followed.literals.get(index, {}).items()
        if _number_at(call, place) > 1
    }
    known |= _of_result(call, made)
    known |= _of_cut(call, scaling, made, given, dims)
    return _changed(call, known)


def window_arguments(call: ReplayCall, made: Resized) -> ReplayCall:
    """``aten::as_strided`` with the window that comes out."""
    arguments: list[Argument] = [call.arguments[0], made.new.shape, made.new.strides, *call.arguments[3:]]
    if len(arguments) > 3 and arguments[3] is not None:
        arguments[3] = made.new.offset_elements
    return replace(call, arguments=tuple(arguments))


def _of_result(call: ReplayCall, made: Sequence[Resized | None]) -> dict[Place, int]:
    """Sizes that are the first result's."""
    first = made[0] if made else None
    if first is None:
        return {}
    old, new = first.old.shape, first.new.shape
    found: dict[Place, int] = {}
    for index, name, value in _named(call):
        if name not in SIZES:
            continue
        if isinstance(value, tuple):
            found |= _list_of(index, value, old, new)
        elif call.operator == "aten::arange" and len(old) == 1 and old != new:
            found |= _of_range(call, old[0], new[0])
        elif len(old) == 1 and value == old[0] and name in ("n", "end", "length", "size"):
            found[index, None] = new[0]
    return found


def _of_range(call: ReplayCall, old: int, new: int) -> dict[Place, int]:
    """Ends of a range of another length; one that begins whole lengths behind 0 does so still."""
    start, step = _whole(call, "start") or 0, _whole(call, "step") or 1
    begin = start // old * new if old and start % old == 0 else start
    places = {name: index for index, name, _ in _named(call)}
    found: dict[Place, int] = {(places["start"], None): begin} if "start" in places else {}
    return {**found, (places["end"], None): begin + new * step}


def _list_of(
    index: int, value: tuple[Argument, ...], old: Sequence[int], new: Sequence[int]
) -> dict[Place, int]:
    if len(value) != len(old) or any(a not in (b, -1) for a, b in zip(value, old, strict=True)):
        return {}
    return {(index, i): size for i, (one, size) in enumerate(zip(value, new, strict=True)) if one != -1}


def _of_cut(
    call: ReplayCall, scaling: Scaling, made: Sequence[Resized | None], given: Sequence[Resized],
    dims: Sequence[tuple[Dim, ...]],
) -> dict[Place, int]:  # fmt: skip
    """Places at which it cuts, along a dimension that has changed."""
    at = _whole(call, "dim") or 0
    if call.operator == "aten::unflatten":
        first = made[0] if made else None
        sizes = next((value for _, name, value in _named(call) if name == "sizes"), ())
        if first is None or not isinstance(sizes, tuple):
            return {}
        at %= max(len(given[0].old.shape), 1)
        index = next(index for index, name, _ in _named(call) if name == "sizes")
        end = at + len(sizes)
        return _list_of(index, sizes, first.old.shape[at:end], first.new.shape[at:end])
    if call.operator in _SPLITS:
        return _of_split(call, at, made)
    is_spread = call.operator in _SPREADS
    if (call.operator not in _CUTS and not is_spread) or not given or not made or made[0] is None:
        return {}
    whole, part = (made[0], given[-1]) if is_spread else (given[0], made[0])
    own = dims[1] if is_spread else dims[0]
    at %= max(len(whole.old.shape), 1)
    if at >= len(own) or at >= len(part.new.shape) or whole.old.shape[at] == whole.new.shape[at]:
        return {}
    return _ends(call, scaling, own[at], whole.old.shape[at], part.new.shape[at])


def _ends(call: ReplayCall, scaling: Scaling, dim: Dim, size: int, length: int) -> dict[Place, int]:
    begin, step = _whole(call, "start") or 0, _whole(call, "step") or 1
    from_end = begin < 0
    begin = max(begin + size, 0) if from_end else min(begin, size)
    start = scaling.size(piece(dim, begin)) if begin else 0
    found: dict[Place, int] = {}
    for index, name, value in _named(call):
        if name == "start" and isinstance(value, int) and not from_end:
            found[index, None] = start
        elif name == "start" and isinstance(value, int):
            found[index, None] = -scaling.size(piece(dim, size - begin))
        elif name == "length":
            found[index, None] = length
        elif name == "end" and isinstance(value, int) and value >= 0 and value < _ALL:
            found[index, None] = start + length * step
    return found


def _of_split(call: ReplayCall, at: int, made: Sequence[Resized | None]) -> dict[Place, int]:
    parts = [None if one is None else one.new.shape[at % max(len(one.new.shape), 1)] for one in made]
    found: dict[Place, int] = {}
    for index, name, value in _named(call):
        if name == "split_size" and isinstance(value, int) and parts and parts[0] is not None:
            found[index, None] = parts[0]
        elif name in ("split_sizes", "split_size") and isinstance(value, tuple):
            found |= {(index, i): size for i, size in enumerate(parts) if size is not None}
    return found


def _changed(call: ReplayCall, sizes: Mapping[Place, int]) -> ReplayCall:
    def one(index: int, argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(sizes.get((index, inner), item) for inner, item in enumerate(argument))
        return sizes.get((index, None), argument)

    return replace(call, arguments=tuple(one(i, argument) for i, argument in enumerate(call.arguments)))


def _named(call: ReplayCall) -> Iterator[tuple[int, str, Argument]]:
    if not call.schema:
        return
    described = parse_schema(call.schema).arguments
    for index, (argument, value) in enumerate(zip(described, call.arguments, strict=False)):
        if not isinstance(value, bool):
            yield index, argument.name, value


def _whole(call: ReplayCall, name: str) -> int | None:
    found = next((value for _, own, value in _named(call) if own == name), None)
    return found if type(found) is int else None


def _number_at(call: ReplayCall, place: Place) -> int:
    index, inner = place
    value = call.arguments[index]
    if inner is not None:
        value = value[inner] if isinstance(value, tuple) else None
    return value if type(value) is int else 0
