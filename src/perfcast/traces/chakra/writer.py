"""Chakra traces to files."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from perfcast.files.writing import write_bytes_atomically
from perfcast.traces.chakra.messages import message_classes
from perfcast.traces.chakra.trace import ChakraAttribute, ChakraNode, ChakraTensors, ChakraTrace


def write_chakra(trace: ChakraTrace, path: str | Path) -> None:
    """Write one rank's trace; packed by gzip where the name ends in ``.gz`` (simulators read it unpacked).

    Raises:
        InputError: The place cannot be written.
    """
    data = b"".join(chakra_bytes(trace))
    write_bytes_atomically(path, gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)


def chakra_bytes(trace: ChakraTrace) -> Iterator[bytes]:
    """The file, message by message."""
    classes = message_classes()
    head = classes.GlobalMetadata(version=_text(trace.version))
    _add_attributes(head, trace.attributes)
    yield _framed(head)
    for node in trace.nodes:
        yield _framed(_node_message(classes, node))


def _framed(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    length, prefix = len(data), bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + data


def _node_message(classes: Any, node: ChakraNode) -> Any:
    message = classes.Node(
        id=node.id,
        name=_text(node.name),
        type=int(node.type),
        ctrl_deps=node.ctrl_deps,
        data_deps=node.data_deps,
        start_time_micros=node.start_time_micros,
        duration_micros=node.duration_micros,
        storage=node.storage,
    )
    for name, tensors in (("inputs", node.inputs), ("outputs", node.outputs)):
        if tensors is not None:
            _fill_tensors(getattr(message, name), tensors)
    _add_attributes(message, node.attributes)
    return message


def _fill_tensors(message: Any, tensors: ChakraTensors) -> None:
    message.SetInParent()
    message.values, message.shapes = _text(tensors.values), _text(tensors.shapes)
    message.types = _text(tensors.types)


def _add_attributes(message: Any, attributes: Iterable[ChakraAttribute]) -> None:
    for attribute in attributes:
        added = message.attr.add(name=_text(attribute.name), doc_string=_text(attribute.description))
        if attribute.kind.endswith("_list"):
            container = getattr(added, attribute.kind)
            container.SetInParent()
            container.values.extend(attribute.value)
        elif attribute.kind:
            value = attribute.value
            setattr(added, f"{attribute.kind}_val", _text(value) if isinstance(value, str) else value)


def _text(text: str) -> str:
    """Without halves of characters, which names in damaged recordings may hold and UTF-8 does not."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")
