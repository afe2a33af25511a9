"""Files of requests: public recordings of language-model services, and plain columns.

* Azure LLM inference traces (Patel et al.: Splitwise, ISCA 2024; github.com/Azure/AzurePublicDataset):
  ``TIMESTAMP,ContextTokens,GeneratedTokens``; times as dates.
* BurstGPT (Wang et al., 2024; github.com/HPMLL/BurstGPT): ``Timestamp,Model,Request tokens,Response tokens``
  and more; seconds. Requests without a response had failed and are left out.
* Mooncake (Qin et al., FAST 2025; github.com/kvcache-ai/Mooncake): a line of JSON for each request with
  ``timestamp`` in milliseconds, ``input_length``, ``output_length`` and ``hash_ids``, one for each 512 tokens
  of the prompt; what an earlier prompt began with is cached, in a cache that forgets nothing.
* Plain: ``arrival_seconds,prompt_tokens,answer_tokens`` and, if wanted, ``cached_tokens``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from perfcast.core.serving.requests import Requests
from perfcast.errors import InputError
from perfcast.files.plain import parse_json
from perfcast.files.reading_tables import csv_rows, text_lines
from perfcast.units import GIGA, MEGA, MILLI

#: No file is read beyond.
MOST_REQUESTS = round(MEGA)
_WHAT = "the requests"
#: Of a prompt, for each hash of Mooncake's recordings.
_HASHED_TOKENS = 512
_MOST_TOKENS = GIGA


@dataclass(frozen=True, slots=True)
class _Row:
    """One request, as a file states it."""

    seconds: float
    prompt: int
    answer: int
    cached: int = 0


@dataclass(frozen=True, slots=True)
class _Columns:
    """A known table: its columns, and how the time is read.

    Attributes:
        time, prompt, answer: Names of columns in lower case.
        cached: '' where the table has none.
        seconds: Reads the time; raises ValueError.
        leaves_failures: Whether a row without an answer is a failure and left out, rather than an error.
    """

    title: str
    time: str
    prompt: str
    answer: str
    seconds: Callable[[str], float]
    cached: str = ""
    leaves_failures: bool = False


def _date_seconds(text: str) -> float:
    """``2023-11-16 18:15:46.6805900``, with any number of digits, with or without a zone (UTC)."""
    whole, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))] if dot else ""
    moment = datetime.fromisoformat(whole + rest[len(digits) :])
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() + (float(f"0.{digits}") if digits else 0.0)


_KNOWN = (
    _Columns("an Azure trace", "timestamp", "contexttokens", "generatedtokens", _date_seconds),
    _Columns("BurstGPT", "timestamp", "request tokens", "response tokens", float, leaves_failures=True),
    _Columns(
        "plain columns", "arrival_seconds", "prompt_tokens", "answer_tokens", float, cached="cached_tokens"
    ),
)


def read_requests(path: str | Path) -> Requests:
    """Requests of a file, in the order of their times, which begin at zero.

    Raises:
        InputError: Not a file of one of the four kinds, too large a one, or a value that no request has; the
            message names file, line and column.
    """
    place = Path(path)
    rows = list(_json_rows(place) if place.suffix == ".jsonl" else _table_rows(place))
    if not rows:
        raise InputError(f"{path}: no request in it")
    return _in_order(rows)


def _in_order(rows: Sequence[_Row]) -> Requests:
    seconds = np.array([row.seconds for row in rows])
    order = np.argsort(seconds, kind="stable")
    columns = np.array([(row.prompt, row.answer, row.cached) for row in rows], dtype=np.int64)[order]
    return Requests(seconds[order] - seconds.min(), columns[:, 0], columns[:, 1], columns[:, 2])


# ---- tables ------------------------------------------------------------------------------------


def _table_rows(path: Path) -> Iterator[_Row]:
    rows = csv_rows(path, what=_WHAT, is_strict=False)
    header = [name.strip().lower() for name in next(rows, (1, []))[1]]
    columns = _known_columns(header, path)
    places = {name: header.index(name) for name in (columns.time, columns.prompt, columns.answer)}
    if columns.cached in header:
        places[columns.cached] = header.index(columns.cached)
    for count, (line, cells) in enumerate(rows):
        _check_count(count, path)
        row = _table_row(cells, columns, places, f"{path}, line {line}")
        if row is not None:
            yield row


def _known_columns(header: Sequence[str], path: Path) -> _Columns:
    for columns in _KNOWN:
        if {columns.time, columns.prompt, columns.answer} <= set(header):
            return columns
    kinds = "; ".join(f"{each.time}, {each.prompt}, {each.answer} ({each.title})" for each in _KNOWN)
    found = ", ".join(header[:8]) or "nothing"
    raise InputError(
        f"{path}, line 1: its columns are {found}; known are {kinds}; and .jsonl of Mooncake's kind"
    )


def _table_row(cells: Sequence[str], columns: _Columns, places: Mapping[str, int], where: str) -> _Row | None:
    """One request; None of a failure."""

    def cell(name: str) -> str:
        if places[name] >= len(cells):
            raise InputError(f"{where}, column {name}: missing")
        return cells[places[name]]

    try:
        seconds = columns.seconds(cell(columns.time))
    except ValueError:
        raise InputError(f"{where}, column {columns.time}: {cell(columns.time)!r} is no time") from None
    if not math.isfinite(seconds):
        raise InputError(f"{where}, column {columns.time}: {cell(columns.time)!r} is no time")
    answer = _tokens(cell(columns.answer), f"{where}, column {columns.answer}", least=0)
    if answer == 0 and columns.leaves_failures:
        return None
    prompt = _tokens(cell(columns.prompt), f"{where}, column {columns.prompt}")
    cached = 0
    if columns.cached in places:
        cached = _tokens(cell(columns.cached), f"{where}, column {columns.cached}", least=0)
        if cached >= prompt:
            raise InputError(f"{where}, column {columns.cached}: {cached} of a prompt of {prompt} tokens")
    return _Row(seconds, prompt, _at_least_one(answer, f"{where}, column {columns.answer}"), cached)


def _tokens(text: str, where: str, *, least: int = 1) -> int:
    """A whole number, such as ``12`` or ``12.0``."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value.is_integer() if math.isfinite(value) else False) or not least <= value <= _MOST_TOKENS:
        raise InputError(f"{where}: {text!r} is no number of tokens of {least} or more")
    return int(value)


def _at_least_one(answer: int, where: str) -> int:
    if answer < 1:
        raise InputError(f"{where}: '0' is no number of tokens of 1 or more")
    return answer


def _check_count(count: int, path: Path) -> None:
    if count >= MOST_REQUESTS:
        raise InputError(f"{path}: more than {MOST_REQUESTS:,} requests; cut it")


# ---- Mooncake's lines --------------------------------------------------------------------------


def _json_rows(path: Path) -> Iterator[_Row]:
    seen: set[int | str] = set()
    for count, line in enumerate(text_lines(path, what=_WHAT)):
        _check_count(count, path)
        if line.strip():
            yield _json_row(line, seen, f"{path}, line {count + 1}")


def _json_row(line: str, seen: set[int | str], where: str) -> _Row:
    entry = parse_json(line, where)
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object with timestamp, input_length and output_length")

    def number(name: str) -> str:
        value = entry.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{where}, column {name}: {value!r} is no number")
        return repr(value)

    milliseconds = float(number("timestamp"))
    if not math.isfinite(milliseconds):
        raise InputError(f"{where}, column timestamp: {milliseconds} is no time")
    prompt = _tokens(number("input_length"), f"{where}, column input_length")
    answer = _tokens(number("output_length"), f"{where}, column output_length")
    hashes = entry.get("hash_ids", [])
    if not isinstance(hashes, list) or not all(isinstance(one, int | str) for one in hashes):
        raise InputError(f"{where}, column hash_ids: expected a list of numbers")
    known = next((place for place, one in enumerate(hashes) if one not in seen), len(hashes))
    seen.update(hashes)
    return _Row(milliseconds * MILLI, prompt, answer, min(known * _HASHED_TOKENS, prompt - 1))
