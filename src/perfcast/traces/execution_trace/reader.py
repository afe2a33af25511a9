"""Execution traces as PyTorch writes them (JSON, gzip or tar; schemas 1.0.1 to 1.1.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from perfcast.core.garbage import garbage_collection_paused
from perfcast.errors import TraceError
from perfcast.files.plain import json_or_none
from perfcast.traces.collectives.groups import groups_of, with_only_group
from perfcast.traces.execution_trace.collectives import collective_of_node
from perfcast.traces.execution_trace.completion import with_callers
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node, Value
from perfcast.traces.execution_trace.storages import with_storages
from perfcast.traces.execution_trace.values import ranges_of, values_of
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES, Member, open_members
from perfcast.traces.files.json_stream import JsonStream
from perfcast.traces.marks import GROUPS_NODE

_KEYS = frozenset({"traceEvents", "nodes"})
_FLAT_VERSION, _FIRST_VERSION, _LAST_VERSION = (1, 0, 1), (1, 0, 1), (1, 1, 1)
#: Of a file's limit of bytes, what a node counts at least: about what it takes in memory.
_BYTES_OF_NODE = 1024
_NO_LISTS: dict[str, list[Any]] = {"values": [], "types": [], "shapes": []}


def read_execution_trace(
    path: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES, is_truncated_allowed: bool = False
) -> ExecutionTrace:
    """Read one rank's execution trace; of an archive of several, use ``read_execution_traces``.

    Raises:
        TraceError: Not such a trace, of an unknown version, damaged, truncated, over the limit, or with
            nodes that make no sense (two of one id, parents in a circle).
    """
    traces = read_execution_traces([path], max_bytes=max_bytes, is_truncated_allowed=is_truncated_allowed)
    if len(traces) > 1:
        raise TraceError(f"'{path}' holds {len(traces)} execution traces; one is asked for")
    return traces[0]


def read_execution_traces(
    paths: Sequence[str | Path], *, max_bytes: int = DEFAULT_MAX_BYTES, is_truncated_allowed: bool = False
) -> tuple[ExecutionTrace, ...]:
    """Read execution traces from files or archives of them, in the order of their names.

    Raises:
        TraceError: As ``read_execution_trace``; no file in an archive.
    """
    traces: list[ExecutionTrace] = []
    for path in paths:
        found = [_read(member, max_bytes, is_truncated_allowed) for member in open_members(path, max_bytes)]
        if not found:
            raise TraceError(f"'{path}' holds no file")
        traces += sorted(found, key=lambda trace: trace.source)
    return tuple(traces)


def _read(member: Member, max_bytes: int, is_truncated_allowed: bool) -> ExecutionTrace:
    name = member.name
    stream = JsonStream(member.blocks, name, _KEYS, is_truncated_allowed=is_truncated_allowed)
    nodes: list[Node] = []
    is_found = False
    with garbage_collection_paused():
        for batch in stream:
            if batch.key != "nodes":
                raise TraceError(f"'{name}' is no execution trace: it is a timeline trace")
            is_found = True
            if len(nodes) + len(batch.items) > max_bytes // _BYTES_OF_NODE:
                raise TraceError(
                    f"'{name}' holds more nodes than the {max_bytes // _BYTES_OF_NODE} that its limit of "
                    "bytes allows; raise the limit (--max-bytes) if you trust it"
                )
            nodes += [_node(item, name) for item in batch.items]
    header = stream.header
    if not is_found and "nodes" not in header:
        raise TraceError(f"'{name}' is no execution trace: it has no 'nodes'")
    warnings = tuple(stream.warnings)
    version = _version(header, name, bool(warnings))
    ended = [node.id for node in nodes]
    nodes.sort(key=lambda node: node.id)
    nodes, more = _checked(nodes, name)
    nodes = with_callers(nodes, ended)
    tracked, storages = with_storages(nodes)
    asked = [node.collective for node in tracked if node.collective is not None]
    groups = groups_of(_groups(tracked), asked)
    collectives = {collective.row: collective for collective in with_only_group(asked, groups)}
    return ExecutionTrace(
        source=name,
        version=version,
        nodes=tuple(replace(node, collective=collectives.get(node.id)) for node in tracked),
        storages=storages,
        process_groups=groups,
        start_milliseconds=_whole(header.get("start_ts")),
        metadata={k: v for k, v in header.items() if isinstance(v, str | int | float | bool)},
        warnings=(*warnings, *more),
    )


def _version(header: Mapping[str, object], name: str, is_truncated: bool) -> tuple[int, int, int]:
    text = str(header.get("schema", "1.0.1" if is_truncated else ""))
    parts = text.split("-")[0].split(".")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 4 for part in parts):
        raise TraceError(f"'{name}' is no execution trace of PyTorch: its schema is '{text[:40]}'")
    version = (int(parts[0]), int(parts[1]), int(parts[2]))
    if not _FIRST_VERSION <= version <= _LAST_VERSION:
        first, last = (".".join(map(str, one)) for one in (_FIRST_VERSION, _LAST_VERSION))
        raise TraceError(f"'{name}' has schema {text[:40]}; {first} to {last} are read")
    return version


def _node(item: object, name: str) -> Node:
    if not isinstance(item, dict):
        raise TraceError(f"'{name}': a node that is not an object: {str(item)[:120]}")
    try:
        return _node_of(item)
    except TraceError as error:
        raise TraceError(
            f"'{name}', node {item.get('id')} ({str(item.get('name'))[:80]}): {error}"
        ) from error


def _node_of(item: dict[str, Any]) -> Node:
    attributes = _attributes(item)
    inputs, input_types = _side(item, "input")
    outputs, output_types = _side(item, "output")
    name = item.get("name")
    if not isinstance(name, str):
        raise TraceError("its name is not text")
    node_id = _whole(item.get("id"), "id")
    return Node(
        id=node_id,
        parent=_whole(item.get("ctrl_deps", item.get("parent", node_id)), "parent"),
        name=name,
        inputs=inputs,
        input_types=input_types,
        outputs=outputs,
        output_types=output_types,
        schema=str(attributes.get("op_schema", "")),
        record_function_id=_whole(attributes.get("rf_id")),
        sequence_number=_whole(attributes.get("seq_id", -1), is_signed=True),
        scope=_whole(attributes.get("scope")),
        thread=_whole(attributes.get("tid")),
        forward_parent=_whole(attributes.get("fw_parent")),
        forward_thread=_whole(attributes.get("fw_tid")),
        kernel_backend=str(attributes.get("kernel_backend", "")),
        kernel_file=str(attributes.get("kernel_file", "")),
        tensor_ranges=ranges_of(attributes.get("tensor_range")),
        collective=collective_of_node(node_id, name, inputs, outputs, attributes),
    )


def _attributes(item: dict[str, Any]) -> Mapping[str, Any]:
    """Attributes by name; in 1.0.1 they stand in the node itself."""
    listed = item.get("attrs")
    if not isinstance(listed, list):
        return item
    return {str(entry.get("name")): entry.get("value") for entry in listed if isinstance(entry, dict)}


def _side(item: dict[str, Any], side: str) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """Inputs or outputs, of either layout."""
    found = item.get(side + "s", _NO_LISTS)
    if isinstance(found, dict):
        return values_of(found.get("values"), found.get("types"), found.get("shapes"), found.get("strides"))
    return values_of(found, item.get(f"{side}_types"), item.get(f"{side}_shapes"), None)


def _whole(value: object, what: str = "", *, is_signed: bool = False) -> int:
    if type(value) is int and (-(2**63) if is_signed else 0) <= value < 2**63:
        return value
    if what:
        raise TraceError(f"its {what} is {str(value)[:40]}, not a whole number")
    return -1 if is_signed else 0


def _checked(nodes: list[Node], name: str) -> tuple[list[Node], tuple[str, ...]]:
    """Nodes whose parents are there; parents that are not become the process.

    Raises:
        TraceError: Two nodes of one id, or parents in a circle.
    """
    if not nodes:
        raise TraceError(f"'{name}' holds no node")
    parents = {node.id: node.parent for node in nodes}
    if len(parents) < len(nodes):
        double = next(a.id for a, b in pairwise(nodes) if a.id == b.id)
        raise TraceError(f"'{name}' has two nodes of id {double}")
    root = next((node.id for node in nodes if node.parent == node.id), nodes[0].id)
    orphans = {node_id for node_id, parent in parents.items() if parent not in parents}
    nodes = [
        replace(node, parent=node.id if node.id == root else root) if node.id in orphans else node
        for node in nodes
    ]
    _check_circles({node.id: node.parent for node in nodes}, name)
    warnings = (f"{len(orphans)} nodes have parents that are not in the file",) if orphans else ()
    return nodes, warnings


def _check_circles(parents: Mapping[int, int], name: str) -> None:
    done: set[int] = set()
    for start in parents:
        path: dict[int, None] = {}
        node = start
        while node not in done:
            if node in path:
                passed = list(path)
                circle = [*passed[passed.index(node) :], node]
                shown = " → ".join(map(str, circle[:6])) + (" → …" if len(circle) > 6 else "")
                raise TraceError(f"'{name}' has nodes that call each other in a circle: {shown}")
            path[node] = None
            if parents[node] == node:
                break
            node = parents[node]
        done.update(path)


def _groups(nodes: Sequence[Node]) -> list[object]:
    """What the trace's list of process groups says."""
    for node in nodes:
        if node.name == GROUPS_NODE and node.inputs and isinstance(node.inputs[0], str):
            found = json_or_none(node.inputs[0])
            return found if isinstance(found, list) else []
    return []
