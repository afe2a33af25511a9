"""Collectives of which a recording has no more than a kernel: what they are, by all that lies around it.

Their size is known where the operator that launched them names itself after a collective and its shapes were
recorded; their group where all else on the stream is of one, as each communicator has a stream of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.collectives.groups import with_only_group
from perfcast.traces.collectives.kernels import word_of_kernel
from perfcast.traces.dtype_words import dtype_bytes, dtype_of
from perfcast.traces.events import NONE, Category, Collective, Events, Trace
from perfcast.traces.marks import ASKING

#: What NCCL's kernel of messages is where nothing tells: an all-to-all, unless the rank sends messages.
_MESSAGES = "send_recv"


def collectives_by_kernels(
    trace: Trace, kernels: Sequence[tuple[int, int]], parents: Integers, known: Iterable[Collective]
) -> list[tuple[Collective, int]]:
    """The collective that each kernel is, with the row of the operator that asked for it, or ``NONE``.

    Args:
        kernels: Row of each kernel, and of the call that launched it or ``NONE``.
        parents: The event around each row of the trace.
        known: What is known of others: whether messages are among them.
    """
    if not kernels:
        return []
    events, ranges = trace.events, _ranges_of_streams(trace.events)
    has_messages = any(one.is_message for one in known)
    found = []
    for row, call in kernels:
        word, operator = word_of_kernel(events.name(row)), NONE
        for around in _around(parents, call):
            said = _said(events.name(around), word)
            if said:
                word, operator = said, around
                break
        else:
            word = _above(events, ranges, row) or word
        if word == _MESSAGES:
            word = "messages" if has_messages else "all_to_all"
        elements, dtype = _sent(events, operator)
        name = word or events.name(row)
        found.append((Collective(row, name, elements, elements, dtype, "", 0), operator))
    collectives = with_only_group((one for one, _ in found), trace.process_groups)
    return [(one, operator) for one, (_, operator) in zip(collectives, found, strict=True)]


def carried_out_in_order(
    trace: Trace, kernels: Sequence[int], asked: Sequence[Collective]
) -> list[tuple[int, Collective]]:
    """Kernels whose launch was not recorded, with what asked for them: from the last of both backwards.

    Communicators carry out what they are asked for in order; what was asked for later than a kernel began, or
    is of another kind than its name, is not it.

    Args:
        asked: In order, those of which no kernel is known.
    """
    events, left, found = trace.events, list(asked), []
    for row in reversed(kernels):
        word = word_of_kernel(events.name(row))
        while left and events.start_seconds[left[-1].row] > events.start_seconds[row]:
            left.pop()
        if left and word in ("", _MESSAGES, word_of_kernel(left[-1].name)):
            found.append((row, left.pop()))
    return found


def batches_of_messages(
    trace: Trace, kernels: Sequence[tuple[int, int]], asked: Sequence[Collective]
) -> dict[int, tuple[Collective, ...]]:
    """Kernels that carry out several messages at once, with all of them.

    ``batch_isend_irecv`` asks for each message and launches one kernel when all have been asked for.

    Args:
        kernels: Row of each kernel, and of the call that launched it or ``NONE``.
        asked: In order, those of which no kernel is known.
    """
    events, left = trace.events, [one for one in asked if one.is_message]
    found: dict[int, tuple[Collective, ...]] = {}
    for row, call in sorted(kernels, key=lambda pair: pair[1]):
        if call == NONE or word_of_kernel(events.name(row)) != _MESSAGES:
            continue
        own = [c for c in left if c.row < call and events.threads[c.row] == events.threads[call]]
        if own:
            found[row] = tuple(own)
            left = [one for one in left if one not in own]
    return found


def _around(parents: Integers, row: int) -> Iterable[int]:
    while row != NONE:
        row = int(parents[row])
        if row != NONE:
            yield row


def _said(name: str, word: str) -> str:
    """What an operator or a marked range says, if that is what such a kernel can be."""
    said = word_of_kernel(name.rpartition("::")[2])
    return said if word in ("", said, _MESSAGES) and said != _MESSAGES else ""


def _ranges_of_streams(events: Events) -> Mapping[tuple[int, int], Integers]:
    """Of each device and stream, the ranges above it in which a library of collectives was asked."""
    codes = [code for code, name in enumerate(events.names) if name.startswith(ASKING)]
    rows = np.flatnonzero(events.is_in(Category.DEVICE_ANNOTATION) & np.isin(events.name_codes, codes))
    found: dict[tuple[int, int], list[int]] = {}
    for row in rows.tolist():
        found.setdefault((int(events.devices[row]), int(events.streams[row])), []).append(row)
    return {place: np.array(of_stream) for place, of_stream in found.items()}


def _above(events: Events, ranges: Mapping[tuple[int, int], Integers], row: int) -> str:
    rows = ranges.get((int(events.devices[row]), int(events.streams[row])))
    if rows is None:
        return ""
    start = events.start_seconds[row]
    over = rows[(events.start_seconds[rows] <= start) & (events.end_seconds[rows] > start)]
    return word_of_kernel(events.name(int(over[-1]))) if len(over) else ""


def _sent(events: Events, operator: int) -> tuple[int, str]:
    """Elements and type of an operator's first tensor; 0 and '' where nothing tells."""
    inputs = events.inputs_of(operator) if operator != NONE else None
    for shape, kind in zip(inputs.shapes, inputs.types, strict=False) if inputs is not None else ():
        dtype = dtype_of(kind)
        if dtype_bytes(dtype) and isinstance(shape, tuple) and all(type(size) is int for size in shape):
            return prod(size for size in shape if type(size) is int), dtype
    return 0, ""


def with_groups_of_streams(
    trace: Trace, works: Sequence[tuple[Collective, Sequence[int]]]
) -> list[Collective]:
    """The collectives in order; those without a group get that of all others on their stream."""
    events = trace.events
    groups: dict[tuple[int, int], set[tuple[str, int, tuple[int, ...]]]] = {}
    for collective, rows in works:
        for row in rows:
            place = (int(events.devices[row]), int(events.streams[row]))
            if collective.group or collective.ranks:
                key = (collective.group, collective.group_size, collective.ranks)
                groups.setdefault(place, set()).add(key)
    found = []
    for collective, rows in works:
        place = (int(events.devices[rows[0]]), int(events.streams[rows[0]])) if rows else (NONE, NONE)
        only = groups.get(place, set())
        is_bare = not collective.group and not collective.ranks and place != (NONE, NONE)
        if is_bare and len(only) == 1:
            (group, size, ranks) = next(iter(only))
            if collective.group_size in (0, size):
                collective = replace(collective, group=group, group_size=size, ranks=ranks)
        found.append(collective)
    return found
