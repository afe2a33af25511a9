"""What a replay may do: namespaces and operators that are called, sizes that are allocated.

A trace is untrusted: its operator names are looked up among the registered operators of a few namespaces,
never evaluated, and its sizes are bounded before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfcast.errors import TraceError
from perfcast.replays.program.schema_text import Schema
from perfcast.units import GIB, format_bytes

#: Namespaces of operators that only compute or communicate.
NAMESPACES = frozenset({"aten", "prims", "c10d", "_c10d_functional", "torchvision", "fbgemm"})
#: Operators of these namespaces that reach outside the program's memory.
_REFUSED = {
    "aten::from_file": "it maps files into memory",
    "aten::_cuda_getCurrentRawStream": "it hands out an address",
}
#: Lists among the arguments that say how large a result becomes.
_SIZE_LISTS = frozenset({"size", "sizes", "shape", "output_size", "new_size", "input_size", "self_size",
                         "input_sizes", "self_sizes", "repeats", "dims", "pad", "padding"})  # fmt: skip
#: Operators whose numbers say so.
_COUNTED = frozenset(
    {"arange", "linspace", "logspace", "range", "eye", "one_hot", "bincount", "randperm", "tril_indices",
     "triu_indices", "hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"}
)  # fmt: skip
#: Elements of an allocation are at least of one byte; views repeat elements without allocating.
_VIEWS = frozenset({"expand", "as_strided", "view", "reshape", "broadcast_to", "unflatten", "_unsafe_view"})


@dataclass(frozen=True, kw_only=True)
class ReplayLimits:
    """Bounds of a replay.

    Attributes:
        max_tensor_bytes: Largest piece of memory.
        max_program_bytes: Most memory alive at once.
        max_calls: Longest program.
        namespaces: Namespaces of operators that may be called.
    """

    max_tensor_bytes: int = 16 * GIB
    max_program_bytes: int = 1024 * GIB
    max_calls: int = 2_000_000
    namespaces: frozenset[str] = NAMESPACES

    def with_namespaces(self, names: Iterable[str]) -> ReplayLimits:
        """These limits with the namespaces that a user's own module registers allowed too."""
        return replace(self, namespaces=self.namespaces | frozenset(names))


DEFAULT_LIMITS = ReplayLimits()


def check_operator(schema: Schema, limits: ReplayLimits) -> None:
    """Refuse an operator that may not be called.

    Raises:
        TraceError: Its namespace is not among the allowed, or it reaches outside the program.
    """
    if schema.namespace not in limits.namespaces:
        raise TraceError(
            f"the trace calls '{schema.operator}', which is outside the namespaces that a replay calls "
            f"({', '.join(sorted(limits.namespaces))}); name the module that registers it if you trust it"
        )
    if schema.operator in _REFUSED:
        raise TraceError(f"the trace calls '{schema.operator}': refused, since {_REFUSED[schema.operator]}")


def check_bytes(num_bytes: int, what: str, limits: ReplayLimits) -> None:
    """Refuse a piece of memory over the limit.

    Raises:
        TraceError: It is too large.
    """
    if num_bytes > limits.max_tensor_bytes:
        raise TraceError(
            f"{what} takes {format_bytes(num_bytes)}, more than the limit of "
            f"{format_bytes(limits.max_tensor_bytes)} of one tensor; raise the limit if you trust the trace"
        )


def check_arguments(schema: Schema, arguments: Sequence[object], limits: ReplayLimits) -> None:
    """Refuse arguments that ask for a piece of memory over the limit, whatever the recorded result says.

    Raises:
        TraceError: They do.
    """
    name = schema.operator.partition("::")[2]
    if name in _VIEWS:
        return
    for described, value in zip(schema.arguments, arguments, strict=False):
        asked = 0.0
        if described.name in _SIZE_LISTS and isinstance(value, tuple):
            asked = math.prod(abs(size) for size in value if isinstance(size, int) and size)
        elif name in _COUNTED and isinstance(value, int | float):
            asked = abs(value)
        if asked > limits.max_tensor_bytes:
            what = f"argument '{described.name}' of '{schema.operator}'"
            raise TraceError(
                f"{what} asks for {asked:.3g} elements, more than the limit of "
                f"{format_bytes(limits.max_tensor_bytes)} of one tensor allows; raise the limit if you "
                "trust the trace"
            )
