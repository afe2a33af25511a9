"""Collectives in a timeline: kernels and records that describe themselves, and operators that ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.collectives.groups import (
    BOOKKEEPING,
    C10D_NAMES,
    collective_of,
    numbers_in,
    peer_and_tag,
)
from perfcast.traces.dtype_words import dtype_of
from perfcast.traces.events import Category, Collective, Events, OperatorInputs
from perfcast.traces.marks import GLOO, NCCL

_NO_DTYPES = ("", "Scalar", "ScalarList", "TensorList")


def collectives_of(
    events: Events, described: Iterable[tuple[int, dict[str, Any]]], rows: Integers
) -> tuple[Collective, ...]:
    """All collectives of a trace in row order.

    Where no host row describes itself (gloo; NCCL before 2024), ``c10d::`` operators tell what they
    exchange by the shapes of their arguments, where these were recorded.

    Args:
        described: Place in the file and arguments of events that carry some of a collective.
        rows: The row of each place.
    """
    found = [collective_of(int(rows[place]), a) for place, a in described if "Collective name" in a]
    found = [collective for collective in found if collective.name not in BOOKKEEPING]
    if not any(events.categories[collective.row] == Category.OPERATOR for collective in found):
        found += asked_collectives(events)
    return tuple(sorted(found, key=lambda collective: collective.row))


def asked_collectives(events: Events) -> list[Collective]:
    """What ``c10d::`` operators ask for; lists of tensors have their size at the range of the sending."""
    asked = events.rows_named(*C10D_NAMES)
    asked = np.sort(asked[events.categories[asked] == Category.OPERATOR])
    marks = [code for code, name in enumerate(events.names) if name.startswith((NCCL, GLOO))]
    marked = np.flatnonzero(events.is_in(Category.ANNOTATION) & np.isin(events.name_codes, marks)).tolist()
    found = []
    for row in asked.tolist():
        collective = _of_operator(events, row)
        mark = next((m for m in marked if m > row and _is_alike(events.inputs_of(m), collective)), None)
        if mark is not None:
            marked.remove(mark)
            collective = _with_mark(collective, events.inputs_of(mark))
        found.append(collective)
    return found


def _is_alike(inputs: OperatorInputs | None, collective: Collective) -> bool:
    return inputs is not None and collective.in_elements in (0, _elements(inputs.shapes[:1]))


def _with_mark(collective: Collective, inputs: OperatorInputs | None) -> Collective:
    elements = _elements(inputs.shapes[:1]) if inputs else 0
    return replace(
        collective,
        in_elements=collective.in_elements or elements,
        out_elements=collective.out_elements or elements,
        dtype=collective.dtype or dtype_of(next(iter(inputs.types if inputs else ()), "")),
    )


def _of_operator(events: Events, row: int) -> Collective:
    """Outputs come first, inputs second, where an operator has both; 0 and '' where no shapes are."""
    name, inputs = events.name(row), events.inputs_of(row)
    sizes = _tensor_sizes(inputs) if inputs else []
    splits = [numbers_in(text) for text in inputs.values if text.startswith("[")] if inputs else []
    is_split = name == "c10d::alltoall_base_" and len(splits) >= 2
    whole = [number for text in inputs.values[2:4] for number in numbers_in(text)] if inputs else []
    peer, tag = peer_and_tag(name, whole)
    return Collective(
        row=row,
        name=C10D_NAMES[name],
        in_elements=sizes[-1] if sizes else 0,
        out_elements=sizes[0] if sizes else 0,
        dtype=dtype_of(next((kind for kind in inputs.types if kind not in _NO_DTYPES), "") if inputs else ""),
        group="",
        group_size=0,
        in_splits=splits[1] if is_split else (),
        out_splits=splits[0] if is_split else (),
        peer=peer,
        tag=tag,
    )


def _tensor_sizes(inputs: OperatorInputs) -> list[int]:
    """Elements of the first two arguments that are tensors or lists of them."""
    sizes = []
    for shape, kind in zip(inputs.shapes[:2], inputs.types[:2], strict=False):
        if kind == "TensorList":
            sizes.append(_elements(shape) if shape else 0)
        elif kind not in _NO_DTYPES:
            sizes.append(_elements(shape))
    return sizes


def _elements(shape: object) -> int:
    """Number of elements of one shape, or of a list of shapes, however deep."""
    if not isinstance(shape, tuple):
        return 0
    if all(isinstance(size, int) for size in shape):
        return prod(shape)
    return sum(_elements(one) for one in shape)
