"""Timeline traces as PyTorch's profiler writes them (Kineto; chrome trace events).

CUDA, ROCm and processors; microseconds whole or fractional; plain, gzip or tar; a document or only its
array of events. Reading takes memory for the columns and one block, never for the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.garbage import garbage_collection_paused
from perfcast.errors import TraceError
from perfcast.traces.collectives.groups import groups_of, with_only_group
from perfcast.traces.events import (
    CALL_CATEGORIES,
    NONE,
    Category,
    DeviceProperties,
    Events,
    Step,
    Synchronization,
    Trace,
)
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES, Member, open_members
from perfcast.traces.files.json_stream import JsonStream
from perfcast.traces.kineto.collectives import collectives_of
from perfcast.traces.kineto.columns import Columns, Finished, Flow
from perfcast.traces.kineto.ranks_of_names import ranks_of_names
from perfcast.traces.marks import STEP_MARK

_KEYS = frozenset({"traceEvents", "nodes"})
#: Of the other steps' time, below which a last mark may be one that the end of the recording closed.
_EMPTY_SHARE = 0.1
_STEP_NAME = re.compile(STEP_MARK + r"#?\s*(\d{1,18})")


def read_kineto(
    path: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES, is_truncated_allowed: bool = False
) -> Trace:
    """Read one rank's trace; of an archive of several, use ``read_ranks``.

    Args:
        path: Plain JSON, gzip, or a tar archive with one trace.
        max_bytes: Unpacked bytes beyond which reading is given up.
        is_truncated_allowed: Read what is whole of a file that ends early; the trace's ``warnings`` say so.

    Raises:
        TraceError: Not such a trace, damaged, truncated, over the limit, or of impossible times.
    """
    traces = read_ranks([path], max_bytes=max_bytes, is_truncated_allowed=is_truncated_allowed)
    if len(traces) > 1:
        raise TraceError(f"'{path}' holds {len(traces)} ranks; one is asked for")
    return traces[0]


def read_ranks(
    paths: Sequence[str | Path], *, max_bytes: int = DEFAULT_MAX_BYTES, is_truncated_allowed: bool = False
) -> tuple[Trace, ...]:
    """Read the traces of several ranks, from files or archives of them; in the order of their ranks.

    Ranks that no file says (``distributedInfo``, since PyTorch 1.13) are those of the files' names.

    Raises:
        TraceError: As ``read_kineto``; no trace in an archive; two traces of one rank.
    """
    traces = []
    for path in paths:
        found = [_read(member, max_bytes, is_truncated_allowed) for member in open_members(path, max_bytes)]
        if not found:
            raise TraceError(f"'{path}' holds no file")
        traces += found
    return _by_rank(traces)


def _by_rank(traces: list[Trace]) -> tuple[Trace, ...]:
    if len(traces) > 1 and all(trace.world_size == 1 for trace in traces):
        traces = _named_ranks(traces)
    seen: dict[int, str] = {}
    for trace in traces:
        if trace.rank in seen:
            unsaid = trace.world_size == 1
            raise TraceError(
                f"'{seen[trace.rank]}' and '{trace.source}' are both of rank {trace.rank}: give one timeline "
                "for each rank"
                + (
                    ", with names that differ in its number alone (a.rank0.json, a.rank1.json)"
                    if unsaid
                    else ""
                )
            )
        seen[trace.rank] = trace.source
    return tuple(sorted(traces, key=lambda trace: trace.rank))


def _named_ranks(traces: list[Trace]) -> list[Trace]:
    """Traces of which none says a rank, with those of their names, where these tell."""
    ranks = ranks_of_names([trace.source for trace in traces])
    if ranks is None:
        return traces
    note = "no file says its rank: ranks are those of the files' names"
    return [
        replace(
            trace,
            rank=rank,
            world_size=max(len(ranks), max(ranks) + 1),
            warnings=(*trace.warnings, note),
        )
        for trace, rank in zip(traces, ranks, strict=True)
    ]


def _read(member: Member, max_bytes: int, is_truncated_allowed: bool) -> Trace:
    stream = JsonStream(member.blocks, member.name, _KEYS, is_truncated_allowed=is_truncated_allowed)
    columns = Columns(member.name, max_bytes)
    found = False
    with garbage_collection_paused():
        for batch in stream:
            if batch.key == "nodes":
                raise TraceError(
                    f"'{member.name}' is no timeline trace: it is an execution trace; leave it out and "
                    "name the timeline that was recorded with it (*.kineto.json.gz)"
                )
            columns.add(batch.items)
            found = True
    if not found and "traceEvents" not in stream.header:
        raise TraceError(f"'{member.name}' is no timeline trace: {_what_else(stream.header)}")
    return _assemble(member.name, stream.header, columns, tuple(stream.warnings))


def _what_else(header: Mapping[str, object]) -> str:
    keys = ", ".join(list(header)[:5])
    return f"it has no 'traceEvents' (it has: {keys})" if keys else "it has no 'traceEvents'"


def _assemble(name: str, header: dict[str, object], columns: Columns, warnings: tuple[str, ...]) -> Trace:
    finished = columns.finish()
    events = finished.events
    if not events.is_in(*(c for c in Category if c not in (Category.OTHER, Category.PYTHON))).any():
        raise TraceError(
            f"'{name}' is the trace of another tool: no event of it is of a kind that PyTorch writes"
        )
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    rank, world_size = _count(distributed.get("rank"), 0), _count(distributed.get("world_size"), 1)
    collectives = collectives_of(events, columns.kept, finished.rows)
    groups = groups_of(distributed.get("pg_config"), collectives)
    return Trace(
        source=name,
        rank=rank,
        world_size=max(world_size, rank + 1),
        backend=str(distributed.get("backend", "")),
        origin_nanoseconds=finished.origin_nanoseconds,
        events=events,
        steps=_steps(events),
        devices=_devices(header.get("deviceProperties")),
        process_groups=groups,
        collectives=with_only_group(collectives, groups),
        synchronizations=_synchronizations(columns, finished),
        forward_backward=_forward_backward(columns.flows, finished),
        metadata=_metadata(header),
        warnings=warnings,
    )


def _count(value: object, default: int) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 10**9 else default


def _steps(events: Events) -> tuple[Step, ...]:
    numbers = {code: int(m[1]) for code, name in enumerate(events.names) if (m := _STEP_NAME.match(name))}
    rows = np.flatnonzero(
        events.is_in(Category.ANNOTATION, Category.OPERATOR) & np.isin(events.name_codes, list(numbers))
    )
    marked = tuple(
        Step(
            numbers[int(events.name_codes[row])],
            int(row),
            float(events.start_seconds[row]),
            float(events.end_seconds[row]),
        )
        for row in rows
    )
    return _without_empty_end(events, marked)


def _without_empty_end(events: Events, marked: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps without a last one in which nothing began: the mark that the recording's end closed."""
    others = [step.seconds for step in marked[:-1]]
    if not others or marked[-1].seconds > _EMPTY_SHARE * float(np.median(others)):
        return marked
    began = events.start_seconds[events.rows_in(Category.OPERATOR, *CALL_CATEGORIES)]
    last = marked[-1]
    is_empty = not ((began >= last.start_seconds) & (began < last.end_seconds)).any()
    return marked[:-1] if is_empty else marked


def _devices(properties: object) -> tuple[DeviceProperties, ...]:
    known = {"id", "name", "totalGlobalMem", "numSms"}
    return tuple(
        DeviceProperties(
            index=_count(entry.get("id"), index),
            name=str(entry.get("name", "")),
            memory_bytes=_count_large(entry.get("totalGlobalMem")),
            num_multiprocessors=_count(entry.get("numSms"), 0),
            other={str(key): value for key, value in entry.items() if key not in known},
        )
        for index, entry in enumerate(properties if isinstance(properties, list) else [])
        if isinstance(entry, dict)
    )


def _count_large(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**63 else 0


def _synchronizations(columns: Columns, finished: Finished) -> tuple[Synchronization, ...]:
    def number(arguments: dict[str, Any], key: str) -> int:
        value = arguments.get(key, NONE)
        return value if isinstance(value, int) and 0 <= value < 2**32 - 1 else NONE

    found = [
        Synchronization(
            row=int(finished.rows[place]),
            kind=str(arguments["cuda_sync_kind"]),
            stream=number(arguments, "stream"),
            waits_for_stream=number(arguments, "wait_on_stream"),
            wait_correlation=number(arguments, "wait_on_cuda_event_record_corr_id"),
            wait_event=number(arguments, "wait_on_cuda_event_id"),
        )
        for place, arguments in columns.kept
        if "cuda_sync_kind" in arguments
    ]
    return tuple(sorted(found, key=lambda one: one.row))


def _forward_backward(flows: Iterable[Flow], finished: Finished) -> Integers:
    """Rows that the arrows join: an arrow's end is the operator that starts there on its thread."""
    flows = list(flows)
    if not flows:
        return np.empty((0, 2), dtype=np.int64)
    events = finished.events
    rows = events.rows_in(Category.OPERATOR)
    threads = {(t.process, t.number): code for code, t in enumerate(events.threads_table)}
    row_at: dict[tuple[int, int], int] = {}
    for row in rows[::-1].tolist():  # the first row, the outermost, is written last and stays
        row_at[int(events.threads[row]), int(finished.start_nanoseconds[row])] = row
    ends: dict[int, dict[bool, int]] = {}
    for flow in flows:
        thread = threads.get((flow.process, flow.thread), NONE)
        row = row_at.get((thread, flow.nanoseconds - finished.origin_nanoseconds))
        if row is not None:
            ends.setdefault(flow.number, {})[flow.is_start] = row
    pairs = [(end[True], end[False]) for end in ends.values() if len(end) == 2]
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def _metadata(header: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    return {
        key: value[:1000] if isinstance(value, str) else value
        for key, value in header.items()
        if isinstance(value, str | int | float | bool)
    }
