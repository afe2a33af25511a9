"""Collectives in a timeline: kernels and records that describe themselves, and what on the host asks.

PyTorch's versions differ in what they leave of one collective. All but the first are on the host:

* its kernel, described since 2024, before that no more than named (``ncclKernel_SendRecv_RING_…``);
* ``c10d::`` operators: messages, reductions and gathers since 1.13, all-to-alls of one tensor since 2.0;
* ``record_param_comms``, since 1.10; described since 2024, before that with the shape of its tensor at most;
* a marked range with the tensors that are sent (``nccl:all_to_all``), since 1.8; gloo's stands where gloo's
  own thread carries it out.

What lies around one another on a thread is one request, and whatever of it tells the most is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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
from perfcast.traces.events import NONE, Category, Collective, Events, OperatorInputs
from perfcast.traces.marks import ASKING, COLLECTIVE_RECORD, GLOO

_NO_DTYPES = ("", "Scalar", "ScalarList", "TensorList")
#: A message's mark names both ranks by their places in the group: 'nccl:recv 0<-1'.
_MESSAGE = re.compile(r"(send|recv)\w*\s+\d+\s*(?:->|<-)\s*(\d{1,9})")
#: Marks of what only joins others, and of waiting.
_JOINING = frozenset({"coalesced", "wait"})
#: Gathers and scatters, whose parts tell how many ranks there are.
_PARTED = frozenset({"_allgather_base", "_reduce_scatter_base", "all_gather", "reduce_scatter"})


def collectives_of(
    events: Events, described: Iterable[tuple[int, dict[str, Any]]], rows: Integers
) -> tuple[Collective, ...]:
    """All collectives of a trace in row order.

    Args:
        described: Place in the file and arguments of events that carry some of a collective.
        rows: The row of each place.
    """
    found = [collective_of(int(rows[place]), a) for place, a in described if "Collective name" in a]
    on_host = {one.row for one in found if events.categories[one.row] == Category.OPERATOR}
    found = [collective for collective in found if collective.name not in BOOKKEEPING]
    return tuple(sorted(found + asked_collectives(events, on_host), key=lambda one: one.row))


@dataclass
class _Request:
    """Rows of one thread of which the first lies around the others; ``end_seconds`` is its end."""

    rows: list[int]
    end_seconds: float
    marks: list[int] = field(default_factory=list)


def asked_collectives(events: Events, described: Iterable[int] = ()) -> list[Collective]:
    """What the host asks for; lists of tensors have their size at the range of the sending.

    Args:
        described: Rows of the host that describe themselves: what lies around or within them is not asked
            once more.
    """
    described = frozenset(described)
    names = [code for code, name in enumerate(events.names) if _asks(name)]
    rows = np.flatnonzero(
        events.is_in(Category.ANNOTATION, Category.OPERATOR)
        & (events.threads != NONE)
        & np.isin(events.name_codes, names)
    )
    requests = _requests(events, rows.tolist())
    by_mark = {one.rows[0]: one for one in requests if events.name(one.rows[0]).startswith((*ASKING, GLOO))}
    free = sorted(by_mark)
    found = []
    for request in requests:
        row = request.rows[0]
        if row in by_mark or described.intersection(request.rows):
            continue
        collective = _asked(events, request)
        if collective is None:
            continue
        if not request.marks:
            mark = next((m for m in free if m > row and _is_alike(events.inputs_of(m), collective)), None)
            if mark is not None:
                free.remove(mark)
                collective = _with_mark(collective, events.inputs_of(mark))
        found.append(collective)
    found += [_of_mark(events, mark, mark) for mark in free if _is_alone(events, mark, described)]
    return [one for one in found if one.name not in _JOINING]


def _asks(name: str) -> bool:
    return name in C10D_NAMES or name == COLLECTIVE_RECORD or name.startswith((*ASKING, GLOO))


def _is_alone(events: Events, mark: int, described: frozenset[int]) -> bool:
    """A mark is a collective of its own; gloo's only where nothing recorded can have asked for it."""
    if mark in described:
        return False
    if not events.name(mark).startswith(GLOO):
        return True
    asked = events.rows_named(*C10D_NAMES)
    return not len(asked) and not described


def _requests(events: Events, rows: Iterable[int]) -> list[_Request]:
    """Rows by the outermost of them around each, in the order of these."""
    found: list[_Request] = []
    last: dict[int, _Request] = {}
    for row in rows:
        thread, end = int(events.threads[row]), float(events.end_seconds[row])
        request = last.get(thread)
        if request is None or events.start_seconds[row] >= request.end_seconds:
            request = last[thread] = _Request([], end)
            found.append(request)
        request.rows.append(row)
        if len(request.rows) > 1 and events.name(row).startswith((*ASKING, GLOO)):
            request.marks.append(row)
    return found


def _asked(events: Events, request: _Request) -> Collective | None:
    """By its operator, with what its mark adds; by the mark where the operator is only a record."""
    row = request.rows[0]
    mark = request.marks[0] if request.marks else NONE
    if events.name(row) == COLLECTIVE_RECORD:
        return _of_mark(events, mark, row) if mark != NONE else None
    collective = _of_operator(events, row)
    if mark == NONE:
        return collective
    told = _of_mark(events, mark, row)
    collective = _with_mark(collective, events.inputs_of(mark))
    return replace(collective, peer=told.peer) if collective.peer == NONE else collective


def _of_mark(events: Events, mark: int, row: int) -> Collective:
    """What a marked range says; a record around it knows the shape that it may lack."""
    name = events.name(mark).partition(":")[2]
    message = _MESSAGE.match(name)
    nothing = Collective(row, message[1] if message else name.lower(), 0, 0, "", "", 0)
    told = _with_mark(nothing, events.inputs_of(mark))
    if not told.in_elements and row != mark:
        told = _with_mark(nothing, events.inputs_of(row))
    return replace(told, peer=int(message[2])) if message else told


def _is_alike(inputs: OperatorInputs | None, collective: Collective) -> bool:
    sizes = _tensor_sizes(inputs) if inputs is not None else []
    return bool(sizes) and collective.in_elements in (0, sizes[0])


def _with_mark(collective: Collective, inputs: OperatorInputs | None) -> Collective:
    elements = next(iter(_tensor_sizes(inputs)), 0) if inputs else 0
    return replace(
        collective,
        in_elements=collective.in_elements or elements,
        out_elements=collective.out_elements or elements,
        dtype=collective.dtype or _dtype(inputs),
    )


def _dtype(inputs: OperatorInputs | None) -> str:
    return dtype_of(next((kind for kind in inputs.types if kind not in _NO_DTYPES), "") if inputs else "")


def _of_operator(events: Events, row: int) -> Collective:
    """Outputs come first, inputs second, where an operator has both; 0 and '' where no shapes are."""
    name, inputs = events.name(row), events.inputs_of(row)
    sizes = _tensor_sizes(inputs) if inputs else []
    splits = [numbers_in(text) for text in inputs.values if text.startswith("[")] if inputs else []
    is_split = name == "c10d::alltoall_base_" and len(splits) >= 2
    whole = [number for text in inputs.values[2:4] for number in numbers_in(text)] if inputs else []
    peer, tag = peer_and_tag(name, whole)
    sent, received = (sizes[-1], sizes[0]) if sizes else (0, 0)
    return Collective(
        row=row,
        name=C10D_NAMES[name],
        in_elements=sent,
        out_elements=received,
        dtype=_dtype(inputs),
        group="",
        group_size=len(splits[1]) if is_split else parts_of(C10D_NAMES[name], sent, received),
        in_splits=splits[1] if is_split else (),
        out_splits=splits[0] if is_split else (),
        peer=peer,
        tag=tag,
    )


def parts_of(name: str, sent: int, received: int) -> int:
    """How many ranks a gather or a scatter is between, by its sizes; 0 where these do not tell."""
    small, large = sorted((sent, received))
    return large // small if name in _PARTED and small and not large % small and large > small else 0


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
