"""Calls of a timeline alone: sizes, but not which tensor is which.

A tensor is then taken for the last one that came out of a call with its type, sizes and strides.
"""

from __future__ import annotations

from perfcast.core.arrays import Integers
from perfcast.files.plain import json_or_none
from perfcast.traces.dtype_words import dtype_bytes, dtype_of
from perfcast.traces.events import NONE, Category, OperatorInputs, Trace
from perfcast.traces.scaling.blanks.run import Blank, Value, fitting_overload
from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument


def calls_of_rows(trace: Trace, parents: Integers) -> list[ScalingCall]:
    """Operators with recorded shapes, named by their rows.

    Args:
        parents: The event around each.
    """
    events = trace.events
    rows = [row for row in events.rows_in(Category.OPERATOR).tolist() if events.inputs[row] != NONE]
    last = {row: row for row in rows}
    for row in reversed(rows):
        around = int(parents[row])
        while around != NONE and around not in last:
            around = int(parents[around])
        if around != NONE:
            last[around] = max(last[around], last[row])
    found = []
    for row in rows:
        inputs = events.inputs_of(row)
        if inputs is not None:
            name = events.name(row)
            is_operator = "::" in name and not name.startswith(("torch::autograd", "autograd::"))
            arguments = arguments_of(inputs)
            overload = fitting_overload(name, tuple(map(_blank, arguments))) if is_operator else None
            found.append(
                ScalingCall(row, name, overload, arguments, None, last[row], is_operator=is_operator)
            )
    return found


def arguments_of(inputs: OperatorInputs) -> tuple[Argument, ...]:
    """A row's arguments, one for each of its types."""
    found: list[Argument] = []
    for index, word in enumerate(inputs.types):
        shape = inputs.shapes[index] if index < len(inputs.shapes) else ()
        strides = inputs.strides[index] if index < len(inputs.strides) else ()
        value = inputs.values[index] if index < len(inputs.values) else ""
        if word == "TensorList":
            parts = shape if isinstance(shape, tuple) else ()
            steps = (
                strides if isinstance(strides, tuple) and len(strides) == len(parts) else ((),) * len(parts)
            )
            found.append(tuple(_tensor("float32", a, b) for a, b in zip(parts, steps, strict=True)))
        elif dtype_bytes(dtype_of(word)):
            found.append(_tensor(dtype_of(word), shape, strides))
        else:
            found.append(_plain(value))
    return tuple(found)


def _blank(argument: Argument) -> Value:
    if isinstance(argument, TensorArgument):
        return Blank(argument.shape, argument.strides, argument.dtype)
    return tuple(map(_blank, argument)) if isinstance(argument, tuple) else argument


def _tensor(dtype: str, shape: object, strides: object) -> TensorArgument | None:
    sizes = _sizes(shape)
    if sizes is None or not dtype:
        return None
    steps = _sizes(strides)
    return TensorArgument(
        None, None, dtype, sizes, steps if steps is not None and len(steps) == len(sizes) else None
    )


def _sizes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, tuple):
        return None
    found = tuple(size for size in value if isinstance(size, int))
    return found if len(found) == len(value) and all(size >= 0 for size in found) else None


def _plain(text: str) -> Argument:
    words: dict[str, Argument] = {"": None, "True": True, "False": False}
    if text in words:
        return words[text]
    value = json_or_none(text.replace("True", "true").replace("False", "false"))
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, int | float))
    return value if isinstance(value, int | float | bool) else None
