"""A Chakra execution trace: what one rank of a machine runs, as a graph of nodes with durations.

MLCommons' exchange format for simulators (github.com/mlcommons/chakra). A file (``.et``) is a list of
protobuf messages, each after its length: one with the version, then one for each node. Here they are plain
data with nothing left out; times are the file's whole microseconds.

A node may start when all nodes in ``data_deps`` have ended; ``ctrl_deps`` name what called it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias

from perfcast.units import MICRO


class NodeType(IntEnum):
    """What a node is."""

    INVALID = 0
    METADATA = 1
    MEMORY_LOAD = 2
    MEMORY_STORE = 3
    COMPUTE = 4
    SEND = 5
    RECEIVE = 6
    COLLECTIVE = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class CollectiveType(IntEnum):
    """What a collective node exchanges; the value of its attribute ``comm_type``."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


#: Scalar kinds of an attribute's value; each also stands with ``_list``.
SCALAR_KINDS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
Scalar: TypeAlias = "int | float | bool | str | bytes"
Value: TypeAlias = "Scalar | tuple[Scalar, ...]"


@dataclass(frozen=True, slots=True)
class ChakraAttribute:
    """A named value; ``kind`` is one of ``SCALAR_KINDS``, one with ``_list``, or '' without a value."""

    name: str
    kind: str
    value: Value
    description: str = ""


@dataclass(frozen=True, slots=True)
class ChakraTensors:
    """Inputs or outputs of a node, as texts of nested lists."""

    values: str = ""
    shapes: str = ""
    types: str = ""


@dataclass(frozen=True, slots=True)
class ChakraNode:
    """One node. ``storage`` is the packed message of a storage node, empty for others.

    ``type`` is a plain number where a file has one that is not known.
    """

    id: int
    name: str
    type: int
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    start_time_micros: int = 0
    duration_micros: int = 0
    inputs: ChakraTensors | None = None
    outputs: ChakraTensors | None = None
    attributes: tuple[ChakraAttribute, ...] = ()
    storage: bytes = b""

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.duration_micros * MICRO

    def value(self, name: str) -> Value | None:
        """The value of its first attribute of a name; None where it has none."""
        return next((found.value for found in self.attributes if found.name == name), None)

    def number(self, name: str, default: int = 0) -> int:
        """A whole number among its attributes."""
        found = self.value(name)
        return found if isinstance(found, int) else default

    @property
    def is_on_host(self) -> bool:
        """Whether a processor runs it, not an accelerator or a network."""
        return self.value("is_cpu_op") is True

    @property
    def group(self) -> str:
        """The process group of a collective; '' and '0' are all ranks."""
        found = self.value("pg_name")
        return found if isinstance(found, str) else ""


@dataclass(frozen=True)
class ChakraTrace:
    """One rank. ``rank`` is -1 where neither file nor name tell it."""

    source: str
    nodes: tuple[ChakraNode, ...]
    version: str = ""
    attributes: tuple[ChakraAttribute, ...] = ()
    rank: int = -1

    @cached_property
    def by_id(self) -> Mapping[int, ChakraNode]:
        """Nodes by their ids."""
        return {node.id: node for node in self.nodes}

    @property
    def seconds(self) -> float:
        """All nodes' durations together, as if none ran beside another."""
        return sum(node.duration_micros for node in self.nodes) * MICRO


@dataclass(frozen=True)
class ChakraGroup:
    """A process group: its decimal name and its ranks."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class ChakraWorkload:
    """All ranks' traces, and the groups in which they exchange; '0' is all ranks and is not among them."""

    traces: tuple[ChakraTrace, ...]
    groups: tuple[ChakraGroup, ...] = ()
    notes: tuple[str, ...] = field(default=())
