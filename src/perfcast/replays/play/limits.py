"""What a replay may do: namespaces and operators that are called, sizes that are allocated.

A trace is untrusted: its operator names are looked up among the registered operators of a few namespaces,
never evaluated, and its sizes are bounded before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfcast.errors import TraceError
from perfcast.replays.play.result_bytes import asked_bytes
from perfcast.replays.program.schema_text import Schema
from perfcast.units import GIB, format_bytes

#: Namespaces of operators that only compute or communicate.
NAMESPACES = frozenset({"aten", "prims", "c10d", "_c10d_functional", "torchvision", "fbgemm"})
#: Operators of these namespaces that reach outside the program's memory.
_REFUSED = {
    "aten::from_file": "it maps files into memory",
    "aten::_cuda_getCurrentRawStream": "it hands out an address",
}


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
            f"({', '.join(sorted(limits.namespaces))}); --module FILE.py, a file of yours that registers it, "
            "allows it"
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
    for asked, what in asked_bytes(schema, arguments):
        if asked > limits.max_tensor_bytes:
            raise TraceError(
                f"'{schema.operator}': {what} asks for {format_bytes(asked)}, more than the limit of "
                f"{format_bytes(limits.max_tensor_bytes)} of one tensor (--max-tensor-bytes); "
                "raise the limit if you trust the trace"
            )
