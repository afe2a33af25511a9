"""Documents with pieces that no document has: values of another type or size, keys left out, moved, doubled.

A document is drawn off bytes that begin with ``MARK``; others are taken as they are, so that a document that
once did what none may is kept as it is read.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.target import Draw, Target

MARK = b"\x01"
DIGITS, DEEP, TEXT = "@digits@", "@deep@", "@text@"
#: What stands where something else should; the last three are written as what JSON's writer has no value for.
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**53, 2**63, 10**40, -(10**40), 0.0, 0.5, -0.1, 1e308,
    -1e308,
    1e-320, float("nan"), float("inf"), float("-inf"), "", " ", "x", "0", "-1", "1e999",
    "nan", "\x1b[31mred\x07",
    "é中\u202e", "../../etc/passwd", "/dev/zero", "a" * 300, "%s{}", [], {}, [1], [[]], [None], ["x"],
    {"a": 1},
    {"": None}, {"value": 1, "unit": "GB", "source": "x"}, [1] * 1000, DIGITS, DEEP, TEXT,
)  # fmt: skip


def spoilt(draw: Draw, document: Any, words: Sequence[str] = ()) -> Any:
    """A copy of a document, changed in some places."""
    found = json.loads(json.dumps(document))
    for _ in range(1 + draw.below(4)):
        found = _changed(draw, found, words)
    return found


def _changed(draw: Draw, document: Any, words: Sequence[str]) -> Any:
    path = _path(draw, document)
    if not path:
        return copy.deepcopy(draw.choice(HOSTILE)) if draw.chance(10) else document
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    match draw.below(8):
        case 0:
            del holder[key]
        case 1:
            holder[key] = [holder[key]]
        case 2:
            holder[key] = {"a": holder[key]}
        case 3 if isinstance(holder, dict):
            holder[draw.choice((*words, "x", "", "\x1b[0m", str(key) + "_"))] = holder.pop(key)
        case 4 if isinstance(holder, list):
            holder.insert(0, holder[key])
        case 5 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = draw.choice((-1, 0, 0.5, 2, 1e6, 1e12)) * min(max(holder[key], -1e15), 1e15)
        case 6 if words:
            holder[key] = draw.choice(words)
        case _:
            holder[key] = copy.deepcopy(draw.choice(HOSTILE))
    return document


def _path(draw: Draw, document: Any) -> list[Any]:
    """The way to some piece of a document."""
    path: list[Any] = []
    while isinstance(document, dict | list) and document:
        key = draw.choice(list(document)) if isinstance(document, dict) else draw.below(len(document))
        path.append(key)
        document = document[key]
        if draw.chance(20):
            break
    return path


def as_json(document: Any) -> bytes:
    """As JSON, also what JSON's writer would not write."""
    return _raw(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))


def _raw(text: bytes) -> bytes:
    text = text.replace(f'"{DIGITS}"'.encode(), b"9" * 5000).replace(f'"{DEEP}"'.encode(), b"[" * 20_000)
    return text.replace(TEXT.encode(), b"\xff\xfe\x00")


def as_json_lines(document: Any) -> bytes:
    """A list as lines of JSON."""
    return b"".join(
        as_json(line) + b"\n" for line in (document if isinstance(document, list) else [document])
    )


def as_toml(document: Any) -> bytes:
    """As TOML, its tables inline."""
    if not isinstance(document, dict):
        return _raw(_inline(document).encode("utf-8", "replace"))
    lines = (f"{json.dumps(str(key))} = {_inline(value)}" for key, value in document.items())
    return _raw("\n".join(lines).encode("utf-8", "replace"))


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        items = (f"{json.dumps(str(key))} = {_inline(one)}" for key, one in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value is None else json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def packed(write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """The same, packed by gzip."""
    return lambda document: gzip.compress(write(document), 1, mtime=0)


def document_target(
    name: str,
    read: Callable[[Path], object] | Callable[[bytes], object],
    documents: Callable[[], Sequence[Any]],
    *,
    write: Callable[[Any], bytes] = as_json,
    file_name: str = "",
    words: Sequence[str] = (),
    **others: Any,
) -> Target:
    """A reader of documents.

    Args:
        read: Takes the file's path, or the bytes where there is no ``file_name``.
        documents: Good ones.
        write: Of a document.
        words: That keys and values are also changed to.
    """
    held = cache(lambda: tuple(documents()))

    def expand(data: bytes) -> bytes:
        if not data.startswith(MARK):
            return data
        draw = Draw(data[1:])
        return write(spoilt(draw, draw.choice(held()), words))

    def seeds() -> list[bytes]:
        drawn = random.Random(0)
        return [*map(write, held()), *(MARK + drawn.randbytes(40) for _ in range(12))]

    return Target(
        name=name, run=read, seeds=seeds, words=tuple(words), file_name=file_name, expand=expand, **others
    )


def tables_of(content: Mapping[str, Any], section: str, most: int = 3) -> dict[str, Any]:
    """A TOML file's document with a few of its entries only."""
    return {**content, section: dict(list(content[section].items())[:most])}
