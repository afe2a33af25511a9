"""Traces made fit to be shared: names that tell of a project are hashed, what is not needed is left out.

Works on the files' JSON, so that what comes out is read, linked and replayed like any other trace. Names of
PyTorch's own operators, its labels of autograd and profiler, shapes, types and times stay; labels, other
operators, paths, hosts and texts are hashed with a salt, equal ones alike (also between the two files of a
run that are given one salt). Without the salt, short names can be guessed from their hashes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.errors import TraceError
from perfcast.files.plain import parse_json
from perfcast.files.writing import write_bytes_atomically
from perfcast.traces.anonymise.names import Names
from perfcast.traces.anonymise.nodes import check_steps, nodes_of_steps
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES, open_members
from perfcast.traces.marks import GROUPS_NODE, STEP_MARK

#: What stays of an execution trace's attributes; all that readers, links and replays ask for.
_ATTRIBUTES = frozenset(
    {
        "rf_id",
        "fw_parent",
        "seq_id",
        "scope",
        "tid",
        "fw_tid",
        "op_schema",
        "kernel_backend",
        "tensor_range",
        "collective_name",
        "dtype",
        "in_msg_nelems",
        "out_msg_nelems",
        "in_split_size",
        "out_split_size",
        "global_rank_start",
        "global_rank_stride",
        "pg_name",
        "pg_size",
    }
)
#: Of a timeline event's arguments.
_ARGUMENTS = frozenset(
    {
        "External id",
        "Record function id",
        "Sequence number",
        "Fwd thread id",
        "Input Dims",
        "Input type",
        "Input Strides",
        "Concrete Inputs",
        "cbid",
        "correlation",
        "device",
        "context",
        "stream",
        "grid",
        "block",
        "registers per thread",
        "shared memory",
        "bytes",
        "Collective name",
        "In msg nelems",
        "Out msg nelems",
        "Group size",
        "dtype",
        "In split size",
        "Out split size",
        "Process Group Name",
        "Process Group Ranks",
        "cuda_sync_kind",
        "wait_on_stream",
        "wait_on_cuda_event_record_corr_id",
        "wait_on_cuda_event_id",
        "Ev Idx",
        "Seq",
        "Global rank start",
        "Global rank stride",
    }
)
_EVENT_KEYS = ("ph", "cat", "pid", "tid", "ts", "dur", "id", "bp", "s")
_TOP_KEYS = frozenset(
    {
        "schemaVersion",
        "deviceProperties",
        "distributedInfo",
        "record_shapes",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "schema",
        "time",
        "start_ts",
        "finish_ts",
        "pid",
    }
)


@dataclass(frozen=True, slots=True)
class Anonymised:
    """What was written: how many entries were kept of how many, and how many names were hashed."""

    path: Path
    num_kept: int
    num_read: int
    num_hashed: int


def anonymise_trace(
    path: str | Path,
    out: str | Path,
    *,
    salt: str,
    steps: tuple[int, int] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Anonymised:
    """Write an execution trace or a timeline without what tells where it is from.

    Args:
        path: One file, or an archive of one.
        out: Compressed where it ends in '.gz'.
        salt: Mixed into every hash.
        steps: Numbers of the first and the last step that are kept (places among the marked steps, from 0).

    Raises:
        TraceError: Not one trace, damaged, over the limit, or without these steps.
    """
    content = _load(path, max_bytes)
    names = Names(salt)
    if isinstance(content.get("nodes"), list):
        key, entries = "nodes", content["nodes"]
        written = [_node(entry, names) for entry in nodes_of_steps(entries, steps)]
    elif isinstance(content.get("traceEvents"), list):
        key, entries = "traceEvents", content["traceEvents"]
        written = [
            found for entry in _events_of_steps(entries, steps) if (found := _event(entry, names)) is not None
        ]
    else:
        raise TraceError(f"'{path}' is no trace: it has neither 'nodes' nor 'traceEvents'")
    top = {k: names.plain(v) for k, v in content.items() if k in _TOP_KEYS}
    text = json.dumps({**top, key: written}, separators=(",", ":")).encode()
    place = Path(out)
    write_bytes_atomically(place, gzip.compress(text, mtime=0) if place.suffix == ".gz" else text)
    return Anonymised(place, len(written), len(entries), names.num_hashed)


def _load(path: str | Path, max_bytes: int) -> dict[str, Any]:
    """The one file's JSON.

    Raises:
        TraceError: Damaged, over the limit, no object, or several files.
    """
    found = None
    for member in open_members(path, max_bytes):
        if found is not None:
            raise TraceError(f"'{path}' holds several files; unpack it and name one")
        text = b"".join(member.blocks).decode("utf-8-sig", errors="replace")
        found = parse_json(text, f"'{path}'", error=TraceError, may_be_infinite=True)
    if not isinstance(found, dict):
        raise TraceError(f"'{path}' is no trace: its JSON is not an object")
    return found


def _node(node: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A node of an execution trace, of either layout."""
    result = {key: value for key, value in node.items() if key in ("id", "ctrl_deps", "parent")}
    name = str(node.get("name", ""))
    result["name"] = names.operator(name)
    is_groups = name == GROUPS_NODE
    for key, value in node.items():
        if key in ("inputs", "outputs"):
            result[key] = names.groups(value) if is_groups and key == "inputs" else _side(value, names)
        elif key in ("input_types", "output_types", "input_shapes", "output_shapes"):
            result[key] = value
        elif key == "attrs" and isinstance(value, list):
            kept = (one for one in value if isinstance(one, dict) and str(one.get("name")) in _ATTRIBUTES)
            result[key] = [
                {**one, "value": _attribute(one.get("name"), one.get("value"), names)} for one in kept
            ]
        elif key in _ATTRIBUTES:
            result[key] = _attribute(key, value, names)
    return result


def _attribute(key: object, value: Any, names: Names) -> Any:
    return names.schema(str(value)) if key == "op_schema" else value


def _side(value: Any, names: Names) -> Any:
    if isinstance(value, dict):
        values = value.get("values")
        return {**value, "values": names.values(values)}
    return names.values(value)


def _event(event: Any, names: Names) -> dict[str, Any] | None:
    """An event of a timeline; ``None`` for one that tells of the host or of Python's frames."""
    if not isinstance(event, dict) or event.get("cat") == "python_function":
        return None
    if event.get("ph") == "M":
        return names.metadata(event)
    result = {key: event[key] for key in _EVENT_KEYS if key in event}
    name, category = str(event.get("name", "")), str(event.get("cat", ""))
    result["name"] = names.event(name, category)
    arguments = event.get("args")
    if isinstance(arguments, dict):
        result["args"] = {
            key: names.values(value) if key == "Concrete Inputs" else value
            for key, value in arguments.items()
            if key in _ARGUMENTS
        }
    return result


def _events_of_steps(events: list[Any], steps: tuple[int, int] | None) -> list[Any]:
    """The events that lie in the steps, and those that are at no time.

    Raises:
        TraceError: The timeline marks no such steps.
    """
    if steps is None:
        return events
    marks = sorted(
        (float(one["ts"]), float(one["dur"]))
        for one in events
        if isinstance(one, dict)
        and str(one.get("name", "")).startswith(STEP_MARK)
        and one.get("cat") == "user_annotation"
        and isinstance(one.get("ts"), int | float)
        and isinstance(one.get("dur"), int | float)
    )
    check_steps(steps, len(marks))
    first, last = steps
    start, end = marks[first][0], sum(marks[last])
    return [one for one in events if _is_within(one, start, end)]


def _is_within(event: Any, start: float, end: float) -> bool:
    stamp = event.get("ts") if isinstance(event, dict) else None
    if not isinstance(stamp, int | float) or event.get("ph") == "M":
        return True
    return start <= float(stamp) <= end
