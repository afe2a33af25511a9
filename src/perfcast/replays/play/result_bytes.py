"""How large an operator's result becomes by its arguments, whatever the trace says of the result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from perfcast.replays.program.schema_text import Schema
from perfcast.replays.rewrite.tables import DTYPE_NUMBERS
from perfcast.traces.execution_trace.nodes import TensorUse

#: Lists among the arguments that say how large a result becomes.
_SIZE_LISTS = frozenset({"size", "sizes", "shape", "output_size", "new_size", "input_size", "self_size",
                         "input_sizes", "self_sizes", "repeats", "dims", "pad", "padding"})  # fmt: skip
#: Operators whose numbers say so.
_COUNTED = frozenset(
    {"arange", "linspace", "logspace", "range", "eye", "one_hot", "bincount", "randperm", "tril_indices",
     "triu_indices", "hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"}
)  # fmt: skip
#: Views repeat elements without allocating.
_VIEWS = frozenset({"expand", "as_strided", "view", "reshape", "broadcast_to", "unflatten", "_unsafe_view"})
#: Operators whose tensors are spread over one another: a column and a row make a table.
_SPREAD = frozenset(
    {"add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "atan2",
     "maximum", "minimum", "fmax", "fmin", "where", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
     "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "masked_fill", "addcmul",
     "addcdiv", "lerp", "copysign", "hypot", "xlogy"}
)  # fmt: skip
#: Products of matrices: rows of the first by columns of the second.
_PRODUCTS = frozenset({"mm", "bmm", "matmul", "outer", "ger", "linear"})
_USUAL_BYTES, _WHOLE_BYTES = 4, 8


def asked_bytes(schema: Schema, arguments: Sequence[object]) -> Iterator[tuple[float, str]]:
    """Bytes of a result that arguments ask for, with which of them asks, in words."""
    name = schema.operator.partition("::")[2]
    if name in _VIEWS:
        return
    uses = [one for value in arguments for one in _uses(value) if one.shape]
    each = _element_bytes(schema, arguments, uses, name)
    for described, value in zip(schema.arguments, arguments, strict=False):
        if described.name in _SIZE_LISTS and isinstance(value, tuple):
            count = math.prod(abs(size) for size in value if isinstance(size, int) and size)
            times = math.prod(uses[0].shape) if described.name == "repeats" and uses else 1
            yield float(count) * times * each, f"argument '{described.name}'"
        elif name in _COUNTED and isinstance(value, int | float):
            yield abs(value) * each, f"argument '{described.name}'"
    if name in _SPREAD and len(uses) > 1:
        sides = zip_longest(*(reversed(one.shape) for one in uses), fillvalue=1)
        yield float(math.prod(map(max, sides))) * each, "its tensors, spread over one another,"
    if name in _PRODUCTS and len(uses) > 1:
        first, second = uses[0].shape, uses[1].shape
        columns = second[0] if name in ("outer", "ger", "linear") else second[-1]
        rows = math.prod(first) if name in ("outer", "ger") else math.prod(first[:-1])
        yield float(rows) * columns * each, "the product of its tensors"


def _element_bytes(
    schema: Schema, arguments: Sequence[object], uses: Sequence[TensorUse], name: str
) -> float:
    """Of one element of the result: as a type that is asked for, as of its tensors, or as is usual."""
    for described, value in zip(schema.arguments, arguments, strict=False):
        if described.type.startswith("ScalarType") and isinstance(value, int):
            found = next((word for word, number in DTYPE_NUMBERS.items() if number == value), None)
            return _USUAL_BYTES if found is None else _bytes_of(found)
    if uses:
        return max(one.element_bytes or _USUAL_BYTES for one in uses)
    return _WHOLE_BYTES if name in _COUNTED else _USUAL_BYTES


def _bytes_of(dtype: str) -> float:
    """``'float32'`` → 4."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) / 8 if bits else 1


def _uses(value: object) -> Iterator[TensorUse]:
    if isinstance(value, TensorUse):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _uses(item)
