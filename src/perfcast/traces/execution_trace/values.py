"""Values of an execution trace: what the file's type words, shapes and nested lists say."""

from __future__ import annotations

from typing import Any

from perfcast.errors import TraceError
from perfcast.files.plain import json_or_none
from perfcast.traces.dtype_words import dtype_of
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import Opaque, TensorUse, Value

_FLOAT_WORDS = {"inf", "-inf", "nan", "-nan"}
_LIST_WORDS = ("GenericList[", "Tuple[")
_MAX_WHOLE = 2**63


def values_of(
    values: Any, types: Any, shapes: Any, strides: Any
) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """A node's inputs or outputs, and the file's words for their types.

    Args:
        values: As in the file; a tensor is [id, storage, offset, numel, element bytes(, device)].
        types: One word a value.
        shapes: One a value: a shape for a tensor, nested for lists of them.
        strides: Like ``shapes``; ``None`` where the version of the file has none.

    Raises:
        TraceError: The four do not fit together.
    """
    if not all(isinstance(part, list) for part in (values, types, shapes)):
        raise TraceError("values, types and shapes that are not lists")
    if len(values) != len(types) or len(values) > len(shapes):
        raise TraceError(f"{len(values)} values with {len(types)} types and {len(shapes)} shapes")
    steps = strides if isinstance(strides, list) and len(strides) >= len(values) else [None] * len(values)
    parsed = tuple(_value(*one) for one in zip(values, types, shapes, steps, strict=False))
    return parsed, tuple(types)


def _value(value: Any, kind: Any, shape: Any, strides: Any) -> Value:
    if not isinstance(kind, str):
        raise TraceError(f"a type that is not a word: {str(kind)[:80]}")
    if kind.startswith("Tensor(") and kind.endswith(")"):
        return _tensor(value, kind[len("Tensor(") : -1], shape, strides)
    if kind.startswith(_LIST_WORDS) and kind.endswith("]"):
        return _list(value, kind[kind.index("[") + 1 : -1], shape, strides)
    if isinstance(value, str):
        return _word(value, kind)
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return _plain(value)


def _list(value: Any, inner: str, shape: Any, strides: Any) -> Value:
    if not isinstance(value, list):
        return _word(value, inner) if isinstance(value, str) else _plain(value)
    kinds = split_types(inner)
    if len(kinds) != len(value):
        raise TraceError(f"a list of {len(value)} values with {len(kinds)} types")
    shapes = shape if isinstance(shape, list) and len(shape) == len(value) else [[]] * len(value)
    steps = strides if isinstance(strides, list) and len(strides) == len(value) else [None] * len(value)
    return tuple(_value(*one) for one in zip(value, kinds, shapes, steps, strict=True))


def split_types(text: str) -> list[str]:
    """Cut ``'Tensor(long int),GenericList[Int,Int]'`` at the commas that stand in no bracket."""
    if not text:
        return []
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character in "([<":
            depth += 1
        elif character in ")]>":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _tensor(value: Any, dtype: str, shape: Any, strides: Any) -> Value:
    if isinstance(value, str):
        return _word(value, "Tensor")
    is_sound = isinstance(value, list) and len(value) in (5, 6)
    if not is_sound or not all(_is_count(number) for number in value[:5]):
        raise TraceError(f"a tensor that makes no sense: {str(value)[:120]}")
    sizes, steps = _counts(shape), None if strides is None else _counts(strides)
    return TensorUse(
        tensor_id=value[0],
        storage_id=value[1],
        storage=NONE,
        offset_elements=value[2],
        num_elements=value[3],
        element_bytes=value[4],
        device=str(value[5]) if len(value) == 6 else "",
        dtype=dtype_of(dtype),
        shape=sizes if sizes is not None else (),
        strides=steps if steps is not None and sizes is not None and len(steps) == len(sizes) else None,
    )


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number < _MAX_WHOLE


def _counts(numbers: Any) -> tuple[int, ...] | None:
    if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
        return None
    return tuple(numbers)


def _word(value: str, kind: str) -> Value:
    if value == "<None>":
        return None
    if value in _FLOAT_WORDS and kind != "String":
        return float(value.removeprefix("-")) if value == "-nan" else float(value)
    if value.startswith("<") and value.endswith(">") and kind != "String":
        return Opaque(value[1:-1])
    return value


def _plain(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return _word(value, "") if isinstance(value, str) else Opaque(type(value).__name__)


def ranges_of(text: Any) -> dict[int, tuple[int, int]]:
    """The ``tensor_range`` attribute: place among the input tensors → smallest and largest value."""
    if not isinstance(text, str) or not text:
        return {}
    found = json_or_none(text)
    if not isinstance(found, dict):
        return {}
    return {
        int(place): (bounds[0], bounds[1])
        for place, bounds in found.items()
        if place.isdecimal()
        and len(place) < 9
        and isinstance(bounds, list)
        and len(bounds) == 2
        and all(type(bound) is int and abs(bound) < _MAX_WHOLE for bound in bounds)
    }
