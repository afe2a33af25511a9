"""Collectives in an execution trace: what a ``record_param_comms`` or a ``c10d::`` operator asks for.

NCCL is recorded by ``record_param_comms``, whose arguments stand by place: tensors, sequence number,
process group, rank, name, splits, … (from 1.1.0 also as attributes). Gloo has no such record: there the
``c10d::`` operator itself says what is exchanged, but not in which group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfcast.traces.collectives.groups import BOOKKEEPING, C10D_NAMES, numbers_in, peer_and_tag, ranks_in
from perfcast.traces.dtype_words import dtype_of
from perfcast.traces.events import NONE, Collective
from perfcast.traces.execution_trace.nodes import TensorUse, Value, tensors_in
from perfcast.traces.marks import COLLECTIVE_RECORD


@dataclass(frozen=True, slots=True)
class CollectiveRecord:
    """Arguments of a ``record_param_comms`` by their places.

    Attributes:
        tensors: What is sent, or worked on in place; undefined ones included.
        before: What stands between these and the name: sequence number, process group, and a rank.
        name: In small letters, as NCCL has it; ``BOOKKEEPING`` exchange nothing.
        after: What follows: splits, ranks of the group.
    """

    tensors: tuple[TensorUse, ...]
    before: tuple[Value, ...]
    name: str
    after: tuple[Value, ...]

    @property
    def sequence(self) -> int:
        """The collective's number among those of its group, ``NONE`` where none is recorded."""
        first = self.before[0] if self.before else NONE
        return _whole(first[0] if isinstance(first, tuple) and first else first, NONE)

    @property
    def place(self) -> int | None:
        """A place in the group: the root's or the peer's, else the rank's own; None: not recorded."""
        last = self.before[-1] if self.before else None
        return last if type(last) is int else None


def read_record(inputs: tuple[Value, ...]) -> CollectiveRecord | None:
    """The arguments of a ``record_param_comms``; None where nothing among them is a name."""
    tensors = tuple(tensors_in(inputs[:1]))
    rest = inputs[1:] if tensors or (inputs and inputs[0] == ()) else inputs
    place = next((i for i, value in enumerate(rest) if isinstance(value, str)), None)
    if place is None:
        return None
    return CollectiveRecord(tensors, rest[:place], str(rest[place]).lower(), rest[place + 1 :])


def collective_of_node(
    node_id: int,
    name: str,
    inputs: tuple[Value, ...],
    outputs: tuple[Value, ...],
    attributes: Mapping[str, Any],
) -> Collective | None:
    """The collective that a node asks for, or ``None`` where it asks for none."""
    if name == COLLECTIVE_RECORD:
        return _recorded(node_id, inputs, outputs, attributes)
    if name in C10D_NAMES:
        return _asked(node_id, name, inputs)
    return None


def _recorded(
    node_id: int, inputs: tuple[Value, ...], outputs: tuple[Value, ...], attributes: Mapping[str, Any]
) -> Collective | None:
    """By attributes where there are some, else by the places of the arguments."""
    record = read_record(inputs)
    if record is None or len(record.before) < 2 or record.name in BOOKKEEPING:
        return None
    tensors, group, after = list(record.tensors), record.before[1], record.after
    size = _whole(attributes.get("pg_size", after[-1] if len(after) > 2 else 0))
    start, stride = (after[2], after[3]) if len(after) >= 5 else (0, 0)
    ranks = ranks_in(attributes.get("pg_ranks"), size) or _strided(start, stride, size)
    received = list(tensors_in(outputs)) or tensors
    return Collective(
        row=node_id,
        name=record.name,
        in_elements=_whole(attributes.get("in_msg_nelems", _elements(tensors))),
        out_elements=_whole(attributes.get("out_msg_nelems", _elements(received))),
        dtype=dtype_of(str(attributes.get("dtype", tensors[0].dtype if tensors else ""))),
        group=str(group[0]) if isinstance(group, tuple) and group else str(group),
        group_size=size,
        ranks=ranks,
        in_splits=_split(after, 0),
        out_splits=_split(after, 1),
        sequence=record.sequence,
        peer=_peer(record.name, record.place, ranks),
    )


def _peer(name: str, place: int | None, ranks: tuple[int, ...]) -> int:
    """The other rank of a message, recorded as its place in the group."""
    if name not in ("send", "recv") or place is None or not 0 <= place < len(ranks):
        return NONE
    return ranks[place]


def _asked(node_id: int, name: str, inputs: tuple[Value, ...]) -> Collective:
    """What a ``c10d::`` operator's schema says: outputs first, inputs second, where there are two."""
    lists = [list(tensors_in((value,))) for value in inputs[:2]]
    lists = [found for found in lists if found]
    received = lists[0] if lists else []
    sent = lists[-1] if lists else []
    splits = [
        value for value in inputs if isinstance(value, tuple) and value and all(type(v) is int for v in value)
    ]
    is_split = name == "c10d::alltoall_base_" and len(splits) >= 2
    peer, tag = peer_and_tag(name, [value for value in inputs if type(value) is int])
    return Collective(
        row=node_id,
        name=C10D_NAMES[name],
        in_elements=_elements(sent),
        out_elements=_elements(received),
        dtype=sent[0].dtype if sent else "",
        group="",
        group_size=0,
        in_splits=numbers_in(list(splits[1])) if is_split else (),
        out_splits=numbers_in(list(splits[0])) if is_split else (),
        peer=peer,
        tag=tag,
    )


def _elements(tensors: list[TensorUse]) -> int:
    return sum(tensor.num_elements for tensor in tensors)


def _split(after: tuple[Value, ...], place: int) -> tuple[int, ...]:
    found = after[place] if len(after) > place else ()
    return numbers_in(list(found)) if isinstance(found, tuple) else ()


def _strided(start: Value, stride: Value, size: int) -> tuple[int, ...]:
    if type(start) is not int or type(stride) is not int or start < 0 or stride < 1 or size > 1_000_000:
        return ()
    return tuple(range(start, start + stride * size, stride))


def _whole(value: object, default: int = 0) -> int:
    return value if type(value) is int and 0 <= value < 2**63 else default
