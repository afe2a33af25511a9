"""Operators of a program bound to PyTorch's own: functions found by name, arguments made what they take.

Nothing of a trace is evaluated: a name has to be that of a registered operator, arguments are matched by
name with the installed operator's schema. What the trace's operator took and the installed one does not
know has to be what it would be anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfcast.errors import TraceError
from perfcast.replays.program.program import Argument, DeviceName, ReplayCall, SlotUse, slots_in
from perfcast.replays.program.schema_text import parse_schema
from perfcast.replays.rewrite.tables import DTYPE_NUMBERS

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
#: Operators that reach beyond tensors: files, output, other operators' registrations.
REFUSED_OPERATORS = frozenset(
    {"aten::from_file", "aten::_print", "aten::save", "aten::warn", "aten::set_data", "aten::_make_dual"}
)
REFUSED_NAMESPACES = frozenset({"prim", "debugprims", "debug_mode_ops", "profiler", "export", "higher_order"})


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A function and what it is called with; ``SlotUse`` still stands where a tensor goes.

    Lists that hold tensors are lists, so that tensors can be put in; ``written`` are the slots that the
    operator writes into.
    """

    function: Callable[..., Any]
    positional: list[Any]
    keywords: dict[str, Any]
    written: tuple[int, ...]


def bind_call(call: ReplayCall) -> BoundCall:
    """The installed operator of a call, and its arguments.

    Raises:
        TraceError: No such operator is registered, or it does not take what the trace gives it.
    """
    overload = find_operator(call.name)
    installed = overload._schema.arguments
    given = _by_name(call)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    written: list[int] = []
    is_by_place = True
    for argument in installed:
        if argument.name not in given:
            if not argument.has_default_value():
                raise TraceError(f"{_where(call)}: this PyTorch's operator needs '{argument.name}' as well")
            is_by_place = False
            continue
        value = given.pop(argument.name)
        converted = _converted(value, str(argument.real_type), call)
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.extend(slots_in((value,)))
        if argument.kwarg_only or not is_by_place:
            if not _is_default(argument, value):
                keywords[argument.name] = converted
        else:
            positional.append(converted)
    for name, value in given.items():
        if value not in (None, False, ()):
            raise TraceError(f"{_where(call)}: this PyTorch's operator has no argument '{name}'")
    return BoundCall(overload._op, _trimmed(positional, installed), keywords, tuple(written))


def _trimmed(positional: list[Any], installed: Any) -> list[Any]:
    """Without the last arguments where these are the defaults anyway: each one costs time at every call."""
    kept = list(positional)
    while kept and _is_default(installed[len(kept) - 1], kept[-1]):
        kept.pop()
    return kept


def _is_default(argument: Any, value: Any) -> bool:
    if not argument.has_default_value() or isinstance(value, (SlotUse, list, tuple)):
        return False
    default = argument.default_value
    return type(default) is type(value) and bool(default == value)


def find_operator(name: str) -> Any:
    """PyTorch's operator of this name, with overload: ``torch.ops.aten.add.Tensor``.

    Raises:
        TraceError: The name is none, its namespace is not open to replays, or nothing is registered.
    """
    import torch

    from perfcast.torch_internals.eager import OpOverload, OpOverloadPacket

    if not _NAME.fullmatch(name):
        raise TraceError(f"'{name[:80]}' is no operator's name")
    space, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    if space in REFUSED_NAMESPACES or f"{space}::{operator}" in REFUSED_OPERATORS:
        raise TraceError(f"operator {name} is refused: it reaches beyond tensors")
    packet = getattr(getattr(torch.ops, space), operator, None)
    if not isinstance(packet, OpOverloadPacket):
        raise TraceError(f"operator {name} is not registered here; --module FILE.py can register it")
    found = getattr(packet, overload or "default", None)
    if not isinstance(found, OpOverload):
        raise TraceError(f"operator {space}::{operator} has no overload '{overload or 'default'}' here")
    return found


def _by_name(call: ReplayCall) -> dict[str, Argument]:
    """Arguments by the names that the call's schema gives them."""
    names = [argument.name for argument in parse_schema(call.schema).arguments]
    if len(call.arguments) > len(names):
        raise TraceError(f"{_where(call)} has {len(call.arguments)} arguments, its schema {len(names)}")
    return dict(zip(names, call.arguments, strict=False))


def _converted(value: Argument, kind: str, call: ReplayCall) -> Any:
    """A literal as PyTorch takes it; tensors stay places."""
    import torch

    inner = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    if value is None or isinstance(value, SlotUse) or inner in ("Generator", "Stream"):
        return None if inner in ("Generator", "Stream") else value
    if isinstance(value, DeviceName):
        return torch.device(value.name)
    if inner == "Device":
        return torch.device(str(value))
    if isinstance(value, tuple):
        return [_converted(item, _item_kind(inner), call) for item in value]
    table = _enumeration(inner)
    if table is not None:
        if not isinstance(value, int) or value not in table:
            raise TraceError(f"{_where(call)}: {value!r} is no {inner} of this PyTorch")
        return table[value]
    if inner == "float" and isinstance(value, (int, float)):
        return float(value)
    return value


def _item_kind(kind: str) -> str:
    return kind.removeprefix("List[").removesuffix("]") if kind.startswith("List[") else kind


def _enumeration(kind: str) -> Mapping[int, Any] | None:
    tables = {"ScalarType": _element_types, "Layout": _layouts, "MemoryFormat": _memory_formats}
    return tables[kind]() if kind in tables else None


@cache
def _element_types() -> Mapping[int, Any]:
    import torch

    return {number: getattr(torch, name) for name, number in DTYPE_NUMBERS.items() if hasattr(torch, name)}


@cache
def _layouts() -> Mapping[int, Any]:
    """c10/core/Layout.h."""
    import torch

    names = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc")
    return {number: getattr(torch, name) for number, name in enumerate(names)}


@cache
def _memory_formats() -> Mapping[int, Any]:
    """c10/core/MemoryFormat.h."""
    import torch

    names = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
    return {number: getattr(torch, name) for number, name in enumerate(names)}


def _where(call: ReplayCall) -> str:
    return f"{call.name} (node {call.node_id})"
