"""Values that pass between processes of ours, as JSON: dataclasses and enums go by their names.

What is read makes nothing but plain data, arrays of numbers, and the dataclasses, enums and functions of this
package by their names: a damaged or foreign text is an error and can call nothing else, unlike a pickle.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from perfcast.errors import InputError

_PACKAGE = "perfcast"
_PLAIN = (str, int, float, bool, type(None))
#: Kinds of numpy's arrays that are nothing but numbers and truth values.
_NUMBERS = "biuf"


def write_typed(value: object) -> bytes:
    """A value as JSON; NaN and infinities included.

    Args:
        value: Plain data, tuples, lists, sets, mappings, bytes, paths, numpy's arrays of numbers, and of this
            package enums, dataclasses and functions of a module, nested as they may be.

    Raises:
        TypeError: It holds something else.
    """
    return json.dumps(_written(value), separators=(",", ":")).encode("ascii")


def read_typed(data: bytes | str) -> Any:
    """What ``write_typed`` was given; mappings come as dictionaries.

    Raises:
        InputError: It was not written by ``write_typed``.
    """
    try:
        return _read(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError) as error:
        raise InputError(f"a message between processes is damaged: {error}") from None


def _written(value: Any) -> Any:
    """Tuples are lists; all that JSON has no form for is an object with one key."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple) and type(value) is tuple:
        return [_written(one) for one in value]
    if isinstance(value, Enum):
        return {"enum": [_name(type(value)), value.name]}
    if is_dataclass(value) and not isinstance(value, type):
        held = [_written(getattr(value, one.name)) for one in fields(value) if one.init]
        return {"data": [_name(type(value)), *held]}
    for kind in _KINDS:
        if kind.holds(value):
            return {kind.key: kind.write(value)}
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} does not pass between processes")


def _read(found: Any) -> Any:
    if isinstance(found, list):
        return tuple(_read(one) for one in found)
    if not isinstance(found, dict):
        return found
    ((key, held),) = found.items()
    if key == "data":
        return _made(held[0], held[1:])
    if key == "enum":
        return _kind(held[0], Enum)[held[1]]  # type: ignore[index]
    return _BY_KEY[key].read(held)


def _made(name: str, held: list[Any]) -> Any:
    kind = _kind(name, object)
    if not is_dataclass(kind):
        raise TypeError(f"{name} is no dataclass")
    names = [one.name for one in fields(kind) if one.init]
    return kind(**{key: _read(one) for key, one in zip(names, held, strict=True)})


def _name(thing: Any) -> str:
    module, name = thing.__module__, thing.__qualname__
    if module.split(".")[0] != _PACKAGE or "<" in name:
        raise TypeError(f"{module}:{name} cannot be found by its name in {_PACKAGE}")
    return f"{module}:{name}"


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    if module.split(".")[0] != _PACKAGE:
        raise TypeError(f"'{module}' is not of {_PACKAGE}")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if getattr(found, "__module__", "") != module:
        raise TypeError(f"'{name}' is not of {_PACKAGE}")
    return found


def _kind(name: str, base: type) -> type:
    found = _found(name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise TypeError(f"'{name}' is not what it should be")
    return found


def _function(name: str) -> Any:
    found = _found(name)
    if isinstance(found, type) or not callable(found):
        raise TypeError(f"'{name}' is no function")
    return found


def _is_array(value: object) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in _NUMBERS


def _write_array(value: Any) -> list[Any]:
    return [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode("ascii")]


def _read_array(held: list[Any]) -> Any:
    import numpy as np

    dtype, shape, text = held
    if np.dtype(dtype).kind not in _NUMBERS:
        raise TypeError(f"an array of '{dtype}' is not of numbers")
    found = np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(shape).copy()
    return found if shape else found[()]


@dataclass(frozen=True, slots=True)
class _Kind:
    """What JSON has no form for.

    Attributes:
        key: Of the object that stands for it.
        holds: Whether a value is of the kind.
        write, read: Between it and what JSON has a form for.
    """

    key: str
    holds: Callable[[object], bool]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_KINDS = (
    _Kind(
        "list",
        lambda value: type(value) is list,
        lambda value: [_written(one) for one in value],
        lambda held: [_read(one) for one in held],
    ),
    _Kind(
        "map",
        lambda value: isinstance(value, Mapping),
        lambda value: [[_written(key), _written(one)] for key, one in value.items()],
        lambda held: {_read(key): _read(one) for key, one in held},
    ),
    _Kind(
        "set",
        lambda value: isinstance(value, set | frozenset),
        lambda value: sorted((_written(one) for one in value), key=json.dumps),
        lambda held: frozenset(_read(one) for one in held),
    ),
    _Kind(
        "bytes",
        lambda value: isinstance(value, bytes),
        lambda value: base64.b64encode(value).decode("ascii"),
        base64.b64decode,
    ),
    _Kind("path", lambda value: isinstance(value, Path), str, Path),
    _Kind("array", _is_array, _write_array, _read_array),
    _Kind("function", lambda value: callable(value) and not isinstance(value, type), _name, _function),
)
_BY_KEY = {kind.key: kind for kind in _KINDS}
