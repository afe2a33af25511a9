"""Chakra traces from files, message by message and under limits: a file may come from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfcast.errors import TraceError
from perfcast.traces.chakra.collectives import WORLD, parse_groups
from perfcast.traces.chakra.messages import message_classes
from perfcast.traces.chakra.order import check_order
from perfcast.traces.chakra.trace import (
    ChakraAttribute,
    ChakraGroup,
    ChakraNode,
    ChakraTensors,
    ChakraTrace,
    NodeType,
)
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES, Member, open_members
from perfcast.units import MIB, format_bytes

#: One message, and nodes, dependencies and values of one file: far beyond what programs have.
MAX_MESSAGE_BYTES = 16 * MIB
MAX_ITEMS = 20_000_000
_RANK = re.compile(r"\.(\d{1,9})\.et(?:\.gz)?$")


def read_chakra(path: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> ChakraTrace:
    """One rank's trace, from a ``.et`` file, plain or packed by gzip, or the only one in a tar archive.

    Raises:
        TraceError: It cannot be read; it is no Chakra trace; it is over a limit; two nodes have one id; nodes
            wait for each other in a circle.
    """
    traces = read_chakra_files([path], max_bytes=max_bytes)
    if len(traces) != 1:
        raise TraceError(f"'{path}' holds {len(traces)} traces; one is read")
    return traces[0]


def read_chakra_files(
    paths: Iterable[str | Path], *, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[ChakraTrace, ...]:
    """All ranks' traces, by rank where names tell it.

    Raises:
        TraceError: As ``read_chakra``.
    """
    traces = [_read(member) for path in paths for member in open_members(path, max_bytes)]
    return tuple(sorted(traces, key=lambda trace: trace.rank))


def _read(member: Member) -> ChakraTrace:
    classes, name = message_classes(), member.name
    messages = _messages(member)
    first = next(messages, None)
    if first is None:
        raise TraceError(f"'{name}' is no Chakra trace: it is empty")
    head = _parsed(classes.GlobalMetadata, first, name, "its first message")
    budget = _Budget(name)
    nodes = []
    for place, data in enumerate(messages):
        message = _parsed(classes.Node, data, name, f"node {place}")
        budget.spend(message)
        nodes.append(_node(message))
    rank = _RANK.search(name)
    trace = ChakraTrace(
        name, tuple(nodes), head.version, _attributes(head.attr), int(rank[1]) if rank else -1
    )
    check_order(trace)
    return trace


class _Budget:
    """How much of a file is kept, so that small files cannot ask for all memory."""

    def __init__(self, name: str) -> None:
        self._name, self._left = name, MAX_ITEMS

    def spend(self, message: Any) -> None:
        self._left -= 1 + len(message.data_deps) + len(message.ctrl_deps) + len(message.attr)
        for attribute in message.attr:
            chosen = attribute.WhichOneof("value")
            if chosen is not None and chosen.endswith("_list"):
                self._left -= len(getattr(attribute, chosen).values)
        if self._left < 0:
            raise TraceError(f"'{self._name}' has more than {MAX_ITEMS:,} nodes, dependencies and values")


def _messages(member: Member) -> Iterator[bytes]:
    """Messages after their lengths (base 128, lowest seven bits first)."""
    buffer, at = bytearray(), 0
    for block in member.blocks:
        del buffer[:at]
        buffer += block
        at = 0
        while (found := _framed(buffer, at, member.name)) is not None:
            start, end = found
            yield bytes(memoryview(buffer)[start:end])
            at = end
    if at < len(buffer):
        raise TraceError(f"'{member.name}' is truncated or no Chakra trace: its last message is not whole")


def _framed(buffer: bytearray, at: int, name: str) -> tuple[int, int] | None:
    """Where the message behind the length at a place begins and ends; None where it is not whole yet."""
    length = 0
    for digit in range(10):
        if at + digit >= len(buffer):
            return None
        byte = buffer[at + digit]
        length |= (byte & 0x7F) << 7 * digit
        if length > MAX_MESSAGE_BYTES:
            break
        if byte < 0x80:
            start = at + digit + 1
            return (start, start + length) if start + length <= len(buffer) else None
    raise TraceError(f"'{name}' is no Chakra trace: a message of more than {format_bytes(MAX_MESSAGE_BYTES)}")


def _parsed(kind: Any, data: bytes, name: str, what: str) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise TraceError(
            f"'{name}' is no Chakra trace: {what} makes no sense (--out DIR makes one of a recording)"
        ) from error


def _node(message: Any) -> ChakraNode:
    return ChakraNode(
        message.id,
        message.name,
        message.type,
        tuple(message.data_deps),
        tuple(message.ctrl_deps),
        message.start_time_micros,
        message.duration_micros,
        _tensors(message.inputs) if message.HasField("inputs") else None,
        _tensors(message.outputs) if message.HasField("outputs") else None,
        _attributes(message.attr),
        message.storage,
    )


def _tensors(message: Any) -> ChakraTensors:
    return ChakraTensors(message.values, message.shapes, message.types)


def _attributes(messages: Iterable[Any]) -> tuple[ChakraAttribute, ...]:
    return tuple(_attribute(message) for message in messages)


def _attribute(message: Any) -> ChakraAttribute:
    chosen = message.WhichOneof("value")
    if chosen is None:
        return ChakraAttribute(message.name, "", "", message.doc_string)
    value = getattr(message, chosen)
    if chosen.endswith("_list"):
        return ChakraAttribute(message.name, chosen, tuple(value.values), message.doc_string)
    return ChakraAttribute(message.name, chosen.removesuffix("_val"), value, message.doc_string)


def with_ranks(traces: Iterable[ChakraTrace]) -> tuple[ChakraTrace, ...]:
    """The traces with ranks by their places, where names do not tell all of them apart."""
    found = tuple(traces)
    if len({trace.rank for trace in found}) == len(found) and all(trace.rank >= 0 for trace in found):
        return found
    return tuple(replace(trace, rank=rank) for rank, trace in enumerate(found))


def groups_in(traces: Iterable[ChakraTrace]) -> tuple[ChakraGroup, ...]:
    """Process groups that the traces' nodes of metadata list, each once; those of all ranks ('0') aside."""
    found: dict[str, tuple[int, ...]] = {}
    for trace in traces:
        for node in trace.nodes:
            if node.type == NodeType.METADATA and node.inputs is not None:
                found |= {group.name: group.ranks for group in parse_groups(node.inputs.values)}
    return tuple(ChakraGroup(name, ranks) for name, ranks in sorted(found.items()) if ranks and name != WORLD)
