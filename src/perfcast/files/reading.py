"""Reading a file that a user named: bounded, and every fault one error that says what, where and what to do.

No device, folder or socket is read, nothing beyond a limit of unpacked bytes (``limits``), and no pipe that
gives nothing. Arrays and tables are read by ``reading_arrays`` and ``reading_tables`` beside it.
"""

from __future__ import annotations

import io
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

from perfcast.errors import InputError
from perfcast.files.limits import DOCUMENT_BYTES, STREAM_BYTES, TOML_BYTES
from perfcast.files.opening import BLOCK_BYTES, Source, raw_blocks
from perfcast.files.plain import parse_json, parse_toml
from perfcast.files.unpacking import Blocks, unpacked_blocks

_OTHER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def read_bytes(
    path: str | Path,
    *,
    what: str,
    error: type[InputError] = InputError,
    usual_bytes: int = DOCUMENT_BYTES,
    is_packed: bool = False,
) -> bytes:
    """The whole file.

    Args:
        what: What it is meant to be, for messages: 'the prices', 'the model config'.
        error: Kind of error that its faults are.
        usual_bytes: Limit on unpacked bytes where the user sets none.
        is_packed: Unpack gzip and xz.

    Raises:
        InputError: Of the kind asked for: no such file, none that can be read, or one over its limit.
    """
    source = Source.of(path, what, error, usual_bytes)
    if is_packed:
        return b"".join(unpacked_blocks(source))
    blocks, total = [], 0
    for block in raw_blocks(source):
        total += len(block)
        source.check_size(total)
        blocks.append(block)
    return b"".join(blocks)


def read_text(
    path: str | Path,
    *,
    what: str,
    error: type[InputError] = InputError,
    usual_bytes: int = DOCUMENT_BYTES,
    errors: Literal["strict", "replace"] = "strict",
    is_packed: bool = False,
) -> str:
    """The whole file as UTF-8 text, without a byte order mark.

    Args:
        errors: Whether what is no UTF-8 is refused or replaced, as in logs of programs.

    Raises:
        InputError: Of the kind asked for: it cannot be read, or is no text.
    """
    data = read_bytes(path, what=what, error=error, usual_bytes=usual_bytes, is_packed=is_packed)
    if errors == "replace":
        return data.decode("utf-8-sig", errors="replace").replace("\0", "\ufffd")
    source = Source.of(path, what, error, usual_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        kind = _OTHER_MARKS.get(data[:2])
        found = (
            f"it is {kind}"
            if kind
            else f"it is not UTF-8 text (byte {data[wrong.start]:#04x} at {wrong.start})"
        )
        raise source.refusal(f"{found}; save it as UTF-8") from None
    if "\0" in text:
        source.refuse(f"it is no text: a NUL byte at {data.index(0)}")
    return text


def read_json(
    path: str | Path,
    *,
    what: str,
    error: type[InputError] = InputError,
    usual_bytes: int = DOCUMENT_BYTES,
    may_be_infinite: bool = False,
    is_packed: bool = False,
) -> object:
    """The value that a JSON file holds (``plain.parse_json``).

    Raises:
        InputError: Of the kind asked for: it cannot be read, or is no JSON within bounds.
    """
    text = read_text(path, what=what, error=error, usual_bytes=usual_bytes, is_packed=is_packed)
    return parse_json(text, f"{path}", error=error, may_be_infinite=may_be_infinite)


def read_toml(path: str | Path, *, what: str, error: type[InputError] = InputError) -> dict[str, Any]:
    """The table that a TOML file holds (``plain.parse_toml``).

    Raises:
        InputError: Of the kind asked for: it cannot be read, or is no TOML within bounds.
    """
    text = read_text(path, what=what, error=error, usual_bytes=TOML_BYTES)
    return parse_toml(text, f"{path}", error=error)


def open_unpacked(
    path: str | Path, *, what: str, error: type[InputError] = InputError, usual_bytes: int = STREAM_BYTES
) -> BinaryIO:
    """The unpacked bytes of a plain, gzip or xz file, read once from its beginning.

    Raises:
        InputError: Of the kind asked for, here or while it is read: it cannot be opened, is damaged,
            truncated, or over its limit.
    """
    blocks = unpacked_blocks(Source.of(path, what, error, usual_bytes))
    first = next(blocks, b"")
    return io.BufferedReader(Blocks(chain([first], blocks)), BLOCK_BYTES)
