"""Answers as tables: the rows that a user wants of each, as a polars DataFrame.

Which rows these are stands in each answer's ``table``: a path of fields, such as ``curves[cluster].points``,
where what is in brackets is repeated in every row below. Columns are the fields of the rows, with their units
in their names; what a field holds by name becomes ``field.name`` each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, cast

from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.report.answers import Answer

if TYPE_CHECKING:
    import polars as pl

_STEP = re.compile(r"(\w+)(?:\[([\w,]+)\])?")
Row = dict[str, object]


def frame_of(answer: Answer) -> pl.DataFrame:
    """The rows of an answer's table; of an answer without one, its figures as one row."""
    import polars as pl

    rows = [_join(given, dict(_columns(row, is_inside=False))) for row, given in _rows(answer)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    ordered = [{name: row.get(name) for name in names} for row in rows]
    return pl.DataFrame(ordered, infer_schema_length=None)


def _join(given: Row, row: Row) -> Row:
    """What is repeated first, by its own name where the row has none like it."""
    named = {}
    for name, value in given.items():
        own = name.rpartition(".")[2]
        named[name if own in row else own] = value
    return named | row


def _rows(answer: Answer) -> Iterator[tuple[object, Row]]:
    """Every row, and what is repeated from above it."""
    if not answer.table:
        yield answer, {}
        return
    yield from _below(answer, answer.table.split("."), {})


def _below(holder: object, path: Sequence[str], given: Row) -> Iterator[tuple[object, Row]]:
    if holder is None:
        return
    if isinstance(holder, tuple):
        for one in holder:
            yield from _below(one, path, given)
        return
    if not path:
        yield holder, given
        return
    match = _STEP.fullmatch(path[0])
    assert match is not None
    for below in _all(getattr(holder, match[1])):
        repeated = {
            f"{match[1]}.{name}": getattr(below, name) for name in (match[2] or "").split(",") if name
        }
        yield from _below(below, path[1:], given | repeated)


def _all(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _columns(row: object, *, is_inside: bool, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Names and values of a row; lists of what it holds inside are left out."""
    inherited = {one.name for one in fields(Answer)} if isinstance(row, Answer) else set()
    held: Iterator[tuple[str, object]] = (
        iter(cast("Mapping[str, object]", row).items())
        if isinstance(row, Mapping)
        else ((one.name, getattr(row, one.name)) for one in fields(row))  # type: ignore[arg-type]
    )
    for name, value in held:
        if name in inherited:
            continue
        if isinstance(value, Plan):
            yield prefix + name, format_plan(value)
        elif isinstance(value, Mapping) or (is_dataclass(value) and not isinstance(value, type)):
            yield from _columns(value, is_inside=True, prefix=f"{prefix}{name}.")
        elif isinstance(value, tuple):
            if not is_inside and all(isinstance(one, (str, int, float)) for one in value):
                yield prefix + name, list(value)
        else:
            yield prefix + name, _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return cast("object", value.value)
    return str(value) if isinstance(value, Path) else value
