"""The operation that a group of nodes becomes, and the tensors that it reads and writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.tensor import Storage, Tensor
from perfcast.workload.fuse.roles import Role

#: Most demanding first: what decides how a kernel is built.
_DOMINANT = (
    OperationKind.OPTIMIZER,
    OperationKind.NORMALIZATION,
    OperationKind.SOFTMAX,
    OperationKind.REDUCTION,
)
_MAX_NAMES = 6


@dataclass(frozen=True)
class Member:
    """One node of a kernel.

    Attributes:
        operation: What it computes.
        role: How it takes part.
        inputs, written: Indices of tensors.
    """

    operation: Operation
    role: Role
    inputs: tuple[int, ...]
    written: tuple[int, ...]


@dataclass(frozen=True)
class Interface:
    """What crosses a kernel's boundary.

    Attributes:
        inputs, outputs: Indices of tensors, the largest first; one per storage that is read or written
            in whole, else one per view.
        read_bytes, written_bytes: Each input once, each output once.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    read_bytes: int
    written_bytes: int


def interface_of(
    members: Sequence[Member],
    created: set[int],
    kept: set[int],
    tensors: Sequence[Tensor],
    storages: Sequence[Storage],
) -> Interface:
    """What a kernel of these members reads from outside and writes for others.

    A tensor's place in its storage is not known. Views that do not cover their storage count as
    different parts of it until they add up to the whole: never too few bytes.

    Args:
        created: Storages that did not exist before the kernel.
        kept: Storages whose written values somebody outside uses.
    """
    read: dict[int, dict[int, int]] = defaultdict(dict)
    written: dict[int, dict[int, int]] = defaultdict(dict)
    complete = set(created)
    for member in members:
        for tensor, num_bytes in zip(member.inputs, member.role.read_bytes, strict=True):
            storage = tensors[tensor].storage
            if num_bytes and storage not in complete:
                read[storage][tensor] = read[storage].get(tensor, 0) + num_bytes
        for tensor in member.written:
            storage, num_bytes = tensors[tensor].storage, tensors[tensor].type.num_bytes
            if storage in kept:
                written[storage][tensor] = num_bytes
            if num_bytes >= storages[storage].num_bytes:
                complete.add(storage)
    inputs, read_bytes = _parts(read, tensors, storages)
    outputs, written_bytes = _parts(written, tensors, storages)
    return Interface(inputs, outputs, read_bytes, written_bytes)


def _parts(
    access: dict[int, dict[int, int]], tensors: Sequence[Tensor], storages: Sequence[Storage]
) -> tuple[tuple[int, ...], int]:
    """Tensors and bytes of an access; where one tensor covers its storage, it stands for all of it."""
    found: list[int] = []
    total = 0
    for storage, parts in access.items():
        size = storages[storage].num_bytes
        total += min(size, sum(parts.values()))
        covering = next((t for t in parts if tensors[t].type.num_bytes >= size), None)
        found.extend(parts if covering is None else (covering,))
    found.sort(key=lambda t: -tensors[t].type.num_elements)
    return tuple(found), total


def dominant(members: Sequence[Member]) -> Member:
    """The member that decides what kind of kernel it is; the last one if all are element-wise."""
    ranks = {kind: rank for rank, kind in enumerate(_DOMINANT)}
    return min(reversed(members), key=lambda member: ranks.get(member.operation.kind, len(ranks)))


def fused_operation(members: Sequence[Member], interface: Interface, tensors: Sequence[Tensor]) -> Operation:
    """One operation that does the work of all members and moves only what crosses its boundary."""
    operations = [member.operation for member in members]
    traffic = interface.read_bytes + interface.written_bytes
    return Operation(
        kind=_kind(members),
        name=_name(operations),
        inputs=tuple(tensors[t].type for t in interface.inputs),
        outputs=tuple(tensors[t].type for t in interface.outputs),
        compute_dtype=_compute_dtype(operations),
        flops=sum(o.flops for o in operations),
        executed_flops=sum(o.executed_flops for o in operations),
        memory_traffic_bytes=min(traffic, sum(o.memory_traffic_bytes for o in operations)),
        recompute_flops=sum(o.recompute_flops for o in operations),
        attributes=_attributes(members),
    )


def _kind(members: Sequence[Member]) -> OperationKind:
    """Without rows nothing is normalized over them: a batch norm by running statistics is element-wise."""
    kinds = {member.operation.kind for member in members}
    kind = dominant(members).operation.kind
    has_rows = any(member.role.iteration.rows for member in members)
    if kind is OperationKind.NORMALIZATION and not has_rows:
        return OperationKind.ELEMENTWISE
    if kind in _DOMINANT or len(kinds) == 1:
        return kind
    return OperationKind.REDUCTION if has_rows else OperationKind.ELEMENTWISE


def _name(operations: Sequence[Operation]) -> str:
    """As Inductor names its kernels: ``fused_`` and what is in it, each once."""
    parts = list(dict.fromkeys(o.name.removeprefix("native_").strip("_") for o in operations))
    return "_".join(["fused", *parts[:_MAX_NAMES], *(["etc"] if len(parts) > _MAX_NAMES else [])])


def _compute_dtype(operations: Sequence[Operation]) -> DType:
    """Precision of most of the arithmetic."""
    flops: dict[DType, int] = defaultdict(int)
    for operation in operations:
        flops[operation.compute_dtype] += operation.executed_flops
    return max(flops, key=flops.__getitem__)


def _attributes(members: Sequence[Member]) -> tuple[tuple[str, AttributeValue], ...]:
    count = (("members", len(members)),)
    reducing = next((member for member in members if member.role.iteration.rows), None)
    if reducing is None:
        return count
    stated = dominant(members).operation.attribute("row")
    return (*count, ("row", reducing.role.iteration.row_length if stated is None else stated))
