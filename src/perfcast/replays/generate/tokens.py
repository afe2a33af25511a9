"""Tokens of generated code: every text of a trace that reaches a generated file passes through here.

A trace is untrusted, so nothing of it is ever copied: names must match a strict pattern, numbers and
strings are written by ``repr`` from checked types, labels keep only harmless characters.
"""

from __future__ import annotations

import hashlib
import keyword
import math
import re

from perfcast.errors import TraceError

_OPERATOR = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})::([A-Za-z_][A-Za-z0-9_]{0,127})")
_OVERLOAD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}|")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_DTYPE = re.compile(r"[a-z][a-z0-9_]{0,31}")
_DEVICE = re.compile(r"[a-z]{1,16}(:[0-9]{1,4})?")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.:\[\]#@+/ -]")
_NOT_IN_STRINGS = re.compile(r"[^A-Za-z0-9_.,:;=+<>()\[\]#@/ -]")
#: Operators whose names begin and end with two underscores, as ``aten::__and__``.
_DUNDER = re.compile(r"__i?(and|or|xor|lshift|rshift|contains|not|getitem)__")
_MAX_LABEL, _MAX_STRING, _MAX_WHOLE = 80, 200, 2**63


def operator_parts(operator: str, overload: str) -> tuple[str, str, str]:
    """Namespace, name and overload ('default' for none), each an identifier.

    Raises:
        TraceError: One is not: such a name is never written into a program.
    """
    match = _OPERATOR.fullmatch(operator)
    if match is None or not _is_attribute(match[1]) or not _is_attribute(match[2]):
        raise TraceError(f"{operator[:80]!r} is no name of an operator that can be written into a program")
    if _OVERLOAD.fullmatch(overload) is None or keyword.iskeyword(overload):
        raise TraceError(f"{overload[:80]!r} is no name of an operator's overload")
    return match[1], match[2], overload or "default"


def _is_attribute(name: str) -> bool:
    return not keyword.iskeyword(name) and (not name.startswith("__") or bool(_DUNDER.fullmatch(name)))


def identifier(name: str) -> str:
    """The name, checked.

    Raises:
        TraceError: It is no plain identifier, or a word of Python.
    """
    if _IDENTIFIER.fullmatch(name) is None or keyword.iskeyword(name):
        raise TraceError(f"{name[:80]!r} is no name that can be written into a program")
    return name


def dtype_token(dtype: str) -> str:
    """'torch.float32' for 'float32'.

    Raises:
        TraceError: No element type of PyTorch.
    """
    import torch

    if _DTYPE.fullmatch(dtype) is None or not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise TraceError(f"{dtype[:80]!r} is no element type")
    return f"torch.{dtype}"


def device_token(device: str) -> str:
    """The device's name in quotes.

    Raises:
        TraceError: It is none.
    """
    if _DEVICE.fullmatch(device) is None:
        raise TraceError(f"{device[:80]!r} is no device")
    return repr(device)


def number_token(value: int | float | bool) -> str:
    """A number as Python writes it; infinities and NaN as calls of ``float``.

    Raises:
        TraceError: Not a number, or a whole one of more than 64 bits.
    """
    if type(value) is bool:
        return repr(value)
    if type(value) is int and abs(value) <= _MAX_WHOLE:
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f'float("{value!r}")'
    raise TraceError(f"{str(value)[:80]!r} is no number that can be written into a program")


def string_token(text: str) -> str:
    """A string argument in quotes.

    Raises:
        TraceError: It is long, or holds characters that no argument of an operator needs.
    """
    if len(text) > _MAX_STRING or _NOT_IN_STRINGS.search(text) is not None:
        raise TraceError(f"{text[:80]!r} is no string that can be written into a program")
    return repr(text)


def label_text(label: str) -> str:
    """A label of a trace for a comment: one line, harmless characters, short."""
    shown = _NOT_IN_LABELS.sub("?", label)[:_MAX_LABEL].strip()
    return shown or "-"


def hashed(text: str, salt: str = "") -> str:
    """A short stable name in place of ``text``: eight hexadecimal digits."""
    return hashlib.sha256(f"{salt}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def hashed_path(path: str, salt: str = "") -> str:
    """A module's path with every part hashed but plain numbers, so that equal parts stay equal."""
    parts = re.split(r"([./])", path)
    return "".join(part if part in (".", "/") or part.isdecimal() else hashed(part, salt) for part in parts)
