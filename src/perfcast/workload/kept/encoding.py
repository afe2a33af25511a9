"""A captured step as bytes, and read again: never more than a damaged file could make of it.

    b"perfcast capture 1\\n" · BLAKE2b of what follows (32 bytes) · zlib of JSON

The JSON holds columns: nodes, tensors and storages by field, with texts, types and operations once. It says
by which key it was asked for, so that a file is believed only where it answers what is asked. Numbers are
exact: integers are, and Python writes floats so that they read back as they were.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from itertools import starmap
from typing import Any, TypeVar

from perfcast.core.captured import CapturedStep, StepSizes
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.tensor import Storage, Tensor, TensorType
from perfcast.units import MIB

MAGIC = b"perfcast capture 1\n"
#: A file is read no further, and unpacked no further.
MOST_FILE_BYTES = 64 * MIB
MOST_BYTES = 512 * MIB
_DIGEST_BYTES = 32
_PHASES = {phase.value: phase for phase in Phase}
_KINDS = {kind.value: kind for kind in OperationKind}
T = TypeVar("T")


class DamagedError(ValueError):
    """Bytes that are no captured step of the key."""


def encode(step: CapturedStep, key: str) -> bytes:
    """The bytes of a step.

    Args:
        key: What it is kept under.
    """
    body = zlib.compress(json.dumps(_plain(step, key), separators=(",", ":")).encode(), 1)
    return MAGIC + blake2b(body, digest_size=_DIGEST_BYTES).digest() + body


def decode(data: bytes, key: str) -> CapturedStep:
    """The step that bytes hold.

    Raises:
        DamagedError: They were not written by ``encode`` under this key, or not wholly.
    """
    start = len(MAGIC) + _DIGEST_BYTES
    if len(data) > MOST_FILE_BYTES or not data.startswith(MAGIC):
        raise DamagedError("not a captured step, or one that is too large")
    if blake2b(data[start:], digest_size=_DIGEST_BYTES).digest() != data[len(MAGIC) : start]:
        raise DamagedError("the checksum differs")
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(data[start:], MOST_BYTES)
        if not unpacking.eof:
            raise DamagedError("larger than any step")
        plain = json.loads(text)
        if plain["key"] != key:
            raise DamagedError("kept under another key")
        return _step(plain)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise DamagedError(str(error)) from error


# ---- to plain lists ------------------------------------------------------------------------------


class _Index:
    """Different values in the order of their first use."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}

    def of(self, values: Iterable[Hashable]) -> list[int]:
        places = self._places
        return [places.setdefault(value, len(places)) for value in values]

    def values(self) -> list[Any]:
        return list(self._places)


def _plain(step: CapturedStep, key: str) -> dict[str, Any]:
    graph, types, texts = step.graph, _Index(), _Index()
    operations = [
        (
            o.kind.value,
            o.name,
            types.of(o.inputs),
            types.of(o.outputs),
            o.compute_dtype.label,
            o.flops,
            o.executed_flops,
            o.memory_traffic_bytes,
            o.recompute_flops,
            o.attributes,
        )
        for o in graph.operations
    ]
    nodes, tensors, storages = graph.nodes, graph.tensors, graph.storages
    return {
        "key": key,
        "batch_size": step.sizes.batch_size,
        "sequence_length": step.sizes.sequence_length,
        "parameter_count": graph.parameter_count,
        "notes": graph.notes,
        "operations": operations,
        "nodes": {
            "operation": [node.operation for node in nodes],
            "phase": texts.of(node.phase.value for node in nodes),
            "module": texts.of(node.module for node in nodes),
            "inputs": [node.inputs for node in nodes],
            "outputs": [node.outputs for node in nodes],
            "recomputed": [int(node.recomputed) for node in nodes],
            "stream": [node.stream for node in nodes],
            "num_views": [node.num_views for node in nodes],
            "num_calls": [node.num_calls for node in nodes],
        },
        "tensors": {
            "type": types.of(tensor.type for tensor in tensors),
            "storage": [tensor.storage for tensor in tensors],
        },
        "storages": {
            "num_bytes": [storage.num_bytes for storage in storages],
            "category": texts.of(storage.category for storage in storages),
            "created_by": [storage.created_by for storage in storages],
            "freed_after": [storage.freed_after for storage in storages],
            "created_at": texts.of(storage.created_at for storage in storages),
        },
        "types": [(t.shape, t.dtype.label, t.strides) for t in types.values()],
        "texts": texts.values(),
    }


# ---- and back ------------------------------------------------------------------------------------


def _step(plain: dict[str, Any]) -> CapturedStep:
    texts = [_text(value) for value in plain["texts"]]
    types = [
        TensorType(_integers(shape), DTYPES_BY_LABEL[label], _integers(strides, least=None))
        for shape, label, strides in plain["types"]
    ]
    operations = tuple(_operation(row, types) for row in plain["operations"])
    columns = plain["storages"]
    count = len(plain["nodes"]["operation"])
    storages = _rows(
        Storage,
        _integers(columns["num_bytes"]),
        _picked(texts, columns["category"]),
        _integers(columns["created_by"], least=-1, below=count),
        _integers_or_none(columns["freed_after"], below=count),
        _picked(texts, columns["created_at"]),
    )
    columns = plain["tensors"]
    storage_of = _integers(columns["storage"], below=len(storages))
    tensors = _rows(Tensor, _picked(types, columns["type"]), storage_of)
    graph = Graph(
        nodes=_nodes(plain["nodes"], texts, len(operations), len(tensors)),
        operations=operations,
        tensors=tensors,
        storages=storages,
        parameter_count=_integer(plain["parameter_count"]),
        notes=tuple(_text(note) for note in plain["notes"]),
    )
    length = plain["sequence_length"]
    sizes = StepSizes(_integer(plain["batch_size"]), None if length is None else _integer(length))
    return CapturedStep(graph, sizes)


def _operation(row: Sequence[Any], types: Sequence[TensorType]) -> Operation:
    kind, name, inputs, outputs, compute_dtype, *work, attributes = row
    flops, executed_flops, memory_traffic_bytes, recompute_flops = _integers(work)
    return Operation(
        kind=_KINDS[kind],
        name=_text(name),
        inputs=_picked(types, inputs),
        outputs=_picked(types, outputs),
        compute_dtype=DTYPES_BY_LABEL[compute_dtype],
        flops=flops,
        executed_flops=executed_flops,
        memory_traffic_bytes=memory_traffic_bytes,
        recompute_flops=recompute_flops,
        attributes=tuple((_text(about), _value(value)) for about, value in attributes),
    )


def _nodes(
    columns: dict[str, Any], texts: Sequence[str], num_operations: int, num_tensors: int
) -> tuple[Node, ...]:
    phases = {index: _PHASES[texts[index]] for index in set(_integers(columns["phase"], below=len(texts)))}
    return _rows(
        Node,
        _integers(columns["operation"], below=num_operations),
        [phases[index] for index in columns["phase"]],
        _picked(texts, columns["module"]),
        [_integers(each, below=num_tensors) for each in columns["inputs"]],
        [_integers(each, below=num_tensors) for each in columns["outputs"]],
        [bool(flag) for flag in _integers(columns["recomputed"], below=2)],
        _integers(columns["stream"]),
        _integers(columns["num_views"]),
        _integers(columns["num_calls"]),
    )


def _rows(make: Callable[..., T], *columns: Sequence[Any]) -> tuple[T, ...]:
    return tuple(starmap(make, zip(*columns, strict=True)))


def _picked(values: Sequence[T], places: Any) -> tuple[T, ...]:
    return tuple([values[place] for place in _integers(places, below=len(values))])


def _integers(values: Any, *, least: int | None = 0, below: int | None = None) -> tuple[int, ...]:
    """A list of whole numbers within bounds."""
    if values:
        if {*map(type, values)} != {int}:
            raise DamagedError("not whole numbers")
        if (least is not None and min(values) < least) or (below is not None and max(values) >= below):
            raise DamagedError("a number beyond its bounds")
    return tuple(values)


def _integers_or_none(values: Any, *, below: int) -> tuple[int | None, ...]:
    _integers([value for value in values if value is not None], least=-1, below=below)
    return tuple(values)


def _integer(value: Any) -> int:
    return _integers([value])[0]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise DamagedError("not a text")
    return value


def _value(value: Any) -> AttributeValue:
    if type(value) not in (int, float, bool, str):
        raise DamagedError("not a value of an attribute")
    found: AttributeValue = value
    return found
