"""An operator run on tensors without memory (PyTorch's ``meta`` device): what sizes it gives for what sizes.

Only names of registered ``aten`` operators are run, with numbers and tensors that hold no data, of the types
that they declare. One that has no kernel of its own for such tensors, and is none of those that are known to
run without, is run in another process: it may look for memory and end that.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias

from perfcast.traces.scaling.blanks.apart import Apart
from perfcast.traces.scaling.blanks.composites import COMPOSITES

_NAME = re.compile(r"aten::([a-z_][A-Za-z0-9_]{0,80})")
#: Operators that reach beyond tensors, or take their sizes from what tensors hold.
_REFUSED = frozenset({"from_file", "_print", "save", "warn", "set_data", "_make_dual", "item", "is_nonzero"})
#: Operators of libraries that look for memory where tensors have none.
_LIBRARIES = re.compile(r"lstm|gru|rnn|mkldnn|cudnn|miopen|nnpack|fbgemm|quantize|nested|thnn|mps|vulkan")
_MAX_DIMS, _MAX_LIST = 12, 4096
#: Numbers of element types, quantized ones and bare bits left out, of memory formats and of layouts
#: (``c10/core/ScalarType.h``, ``MemoryFormat.h``, ``Layout.h``): operators do not check them.
_NUMBERED = {
    "ScalarType": frozenset({*range(12), 15, *range(23, 46)}),
    "MemoryFormat": frozenset(range(4)),
    "Layout": frozenset(range(9)),
}
_CACHED = 65536
_MOST_ELEMENTS = 2**60


@dataclass(frozen=True, slots=True)
class Blank:
    """A tensor without memory: sizes, strides and a word for the type of its elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str


Value: TypeAlias = "Blank | int | float | bool | str | tuple[Value, ...] | None"
#: Of results, lists opened; None for one that is sparse.
Blanks: TypeAlias = "tuple[Blank | None, ...]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of an installed operator."""

    name: str
    is_keyword: bool
    is_written: bool
    is_tensor: bool


@cache
def parameters_of(operator: str, overload: str | None) -> tuple[Parameter, ...]:
    """Arguments of an installed operator; nothing where there is none of this name."""
    found = _overloads(operator, overload)
    if not found:
        return ()
    return tuple(
        Parameter(
            argument.name,
            bool(argument.kwarg_only),
            argument.alias_info is not None and argument.alias_info.is_write,
            "Tensor" in str(argument.type),
        )
        for argument in found[0]._schema.arguments
    )


@cache
def _overloads(operator: str, overload: str | None) -> tuple[Any, ...]:
    """The installed operator, or all of a name, those that write into what they are given last."""
    import torch

    match = _NAME.fullmatch(operator)
    if match is None or match.group(1) in _REFUSED:
        return ()
    packet = getattr(torch.ops.aten, match.group(1), None)
    if packet is None:
        return ()
    names = [overload or "default"] if overload is not None else sorted(packet.overloads(), key=_is_out)
    return tuple(getattr(packet, name) for name in names if name in packet.overloads())


def needs_memory(operator: str) -> bool:
    """Whether an operator cannot be run without memory."""
    return _LIBRARIES.search(operator) is not None


def _is_out(name: str) -> tuple[bool, str]:
    return name.endswith("out"), name


@lru_cache(maxsize=_CACHED)
def run_blank(operator: str, overload: str | None, arguments: tuple[Value, ...]) -> Blanks | str:
    """What an operator gives, lists opened; why it gives nothing, if it does not."""
    if _LIBRARIES.search(operator):
        return f"{operator} needs memory"
    reason = f"no operator {operator} is installed"
    for candidate in _overloads(operator, overload):
        found = _run_safely(candidate, arguments)
        if not isinstance(found, str):
            return found
        reason = found
    return reason


@lru_cache(maxsize=_CACHED)
def fitting_overload(operator: str, arguments: tuple[Value, ...]) -> str | None:
    """The first of an operator's overloads that takes these arguments; None where none does."""
    if _LIBRARIES.search(operator):
        return None
    for candidate in _overloads(operator, None):
        if not isinstance(_run_safely(candidate, arguments), str):
            return str(candidate._overloadname)
    return None


def _run_safely(operator: Any, arguments: tuple[Value, ...]) -> Blanks | str:
    """What an operator gives, run here where that is known to end well, else in another process."""
    described = operator._schema.arguments
    if len(arguments) > len(described):
        return "it takes fewer arguments"
    for argument, value in zip(described, arguments, strict=False):
        if argument.name != "device" and not _fits(str(argument.real_type), value):
            return f"{argument.name} is no {argument.real_type}"
    if _is_safe(str(operator._schema.name), str(operator._overloadname)):
        return _run(operator, arguments)
    return _APART((str(operator._schema.name), str(operator._overloadname), arguments))


@cache
def _is_safe(name: str, overload: str) -> bool:
    """Whether an operator is known to run on tensors without memory."""
    from perfcast.torch_internals.eager import has_kernel, has_kernel_for_key

    full = name if overload == "default" else f"{name}.{overload}"
    base = name.removeprefix("aten::")
    if base in COMPOSITES or base.startswith("_foreach_"):
        return True
    return bool(has_kernel(full) and has_kernel_for_key(full, "Meta"))  # TorchScript's own have none


def _fits(kind: str, value: Value) -> bool:
    """Whether a value is of a declared type; what operators check themselves passes."""
    if kind.startswith("Optional["):
        return value is None or _fits(kind[9:-1], value)
    if kind.startswith("List["):
        inner = kind[5:-1]
        if not isinstance(value, tuple):
            return inner in ("int", "SymInt", "float", "bool") and _fits(inner, value)
        return all(_fits(inner, item) for item in value)
    if kind == "Tensor":
        return isinstance(value, Blank) or type(value) in (int, float, bool)
    if kind in _NUMBERED:
        return type(value) is int and value in _NUMBERED[kind]
    return not isinstance(value, Blank) and (kind != "int" or type(value) is int)


def _run_named(question: tuple[str, str, tuple[Value, ...]]) -> Blanks | str:
    name, overload, arguments = question
    (operator,) = _overloads(name, overload)
    return _run(operator, arguments)


_APART: Apart[tuple[str, str, tuple[Value, ...]], Blanks | str] = Apart(
    _run_named, ended="it ended the process that it was run in"
)


def _run(operator: Any, arguments: tuple[Value, ...]) -> Blanks | str:
    import torch

    described = operator._schema.arguments
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    try:
        for argument, value in zip(described, arguments, strict=False):
            blank = "meta" if argument.name == "device" else _blank(value)
            if not argument.kwarg_only:
                positional.append(blank)
            elif argument.name not in ("pin_memory", "layout") and blank is not None:
                keywords[argument.name] = blank
        if any(argument.name == "device" and argument.kwarg_only for argument in described):
            keywords["device"] = "meta"
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            result = operator(*positional, **keywords)
    except Exception as error:  # whatever an operator says to sizes that do not fit
        return (str(error).strip().splitlines() or ["it fails"])[0][:160]
    return tuple(_blanks(result))


def _blank(value: Value) -> Any:
    import torch

    if isinstance(value, Blank):
        dtype = getattr(torch, value.dtype, torch.float32)
        if len(value.shape) > _MAX_DIMS or _elements(value.shape) > _MOST_ELEMENTS:
            raise ValueError("too large")
        if value.strides is None or len(value.strides) != len(value.shape):
            return torch.empty(value.shape, dtype=dtype, device="meta")
        return torch.empty_strided(value.shape, value.strides, dtype=dtype, device="meta")
    if isinstance(value, tuple):
        if len(value) > _MAX_LIST:
            raise ValueError("a long list")
        return [_blank(item) for item in value]
    return value


def _elements(shape: Sequence[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def _blanks(result: Any) -> list[Blank | None]:
    import torch

    if isinstance(result, torch.Tensor):
        if result.layout is not torch.strided:
            return [None]
        return [Blank(tuple(result.shape), tuple(result.stride()), str(result.dtype).removeprefix("torch."))]
    if isinstance(result, list | tuple):
        return [blank for item in result for blank in _blanks(item)]
    return []


def dense_strides(
    shape: Sequence[int], scaled: Sequence[int], strides: Sequence[int] | None
) -> tuple[int, ...]:
    """Strides of the scaled shape: dense in the order of the recorded ones; expanded dims stay so."""
    if strides is None or len(strides) != len(shape):
        strides = [_elements(shape[i + 1 :]) for i in range(len(shape))]
    if tuple(scaled) == tuple(shape):
        return tuple(strides)
    result, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda d: (strides[d], -d)):
        if strides[dim]:
            result[dim] = step
            step *= max(scaled[dim], 1)
    return tuple(result)
