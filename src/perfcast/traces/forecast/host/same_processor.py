"""Operators of other sizes on the processor that recorded them: what of their time is work, what the call.

An operator's time is a call (checks, allocation, the set-up of its loops) and its work. A recording shows
their sum; how they divide follows from how much work the processor does in the time of a call, which differs
far less between processors than either. In times of a call, an operator costs

    c = 1 + traffic / break-even bytes + flops / break-even flops

and its time at another size is t' = t · c'/c: what only the recording knows stays, fixed or not. Small
operators hardly grow with a batch, large ones as it does.

Results beyond 32 MiB come from the kernel anew each time, as glibc's malloc maps them apart (malloc.c,
``DEFAULT_MMAP_THRESHOLD_MAX``), and the first write to each page of them is a page fault.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.operation import Operation, OperationKind
from perfcast.traces.forecast.ratios import BOUNDED, PRICED, Provenance, Ratios
from perfcast.units import KIB, KILO, MIB, MICRO

Kind = OperationKind
#: Bytes that an operator moves in the time of its call, by kind: loops over elements in registers and near
#: caches move most; exponentials, random numbers and comparisons take several times as long a byte. Fitted,
#: as are those of products, to operators of 14 of 27 small programs recorded on one thread at two batches (a
#: power of two each, or half way): `python benchmarks/other_batches.py --fit`.
BREAK_EVEN_BYTES: dict[OperationKind, float] = {
    Kind.ELEMENTWISE: 64 * KILO,
    Kind.COPY: 32 * KILO,
    Kind.REDUCTION: 48 * KILO,
    Kind.FILL: 16 * KILO,
    Kind.SORT: 8 * KILO,
    Kind.LOSS: 8 * KILO,
    Kind.SOFTMAX: 4 * KILO,
    Kind.RANDOM: 4 * KILO,
}
OTHER_BREAK_EVEN_BYTES = 32 * KILO
#: Bytes and flops of products in the time of their call.
BREAK_EVEN_PRODUCTS: dict[OperationKind, tuple[float, float]] = {
    Kind.MATMUL: (64 * KILO, 32 * KILO),
    Kind.BATCHED_MATMUL: (32 * KILO, 32 * KILO),
    Kind.CONVOLUTION: (128 * KILO, 1000 * KILO),
}
OTHER_BREAK_EVEN_PRODUCTS = (64 * KILO, 32 * KILO)
#: From when on malloc maps a block apart, whatever was freed before.
MAPPED_BYTES = 32 * MIB
_PAGE_BYTES = 4 * KIB
#: A page fault with the clearing of its page: huge pages; between bare metal (0.5 µs) and a virtual machine
#: (2.1 µs measured); a slow one.
FAULT_SECONDS_LOW, FAULT_SECONDS, FAULT_SECONDS_HIGH = 0.1 * MICRO, 1.0 * MICRO, 2.5 * MICRO
#: The most of a recorded time that page faults can have been.
_MOST_FAULTS = 0.75


def in_calls(operation: Operation) -> float:
    """What an operator costs, in times of a call of its kind."""
    if operation.uses_matrix_units:
        even_bytes, even_flops = BREAK_EVEN_PRODUCTS.get(operation.kind, OTHER_BREAK_EVEN_PRODUCTS)
        work = operation.memory_traffic_bytes / even_bytes + operation.executed_flops / even_flops
        return 1 + work
    even = BREAK_EVEN_BYTES.get(operation.kind, OTHER_BREAK_EVEN_BYTES)
    return 1 + operation.memory_traffic_bytes / even


def mapped_pages(operation: Operation) -> float:
    """Pages of an operator's results that each call has from the kernel anew."""
    sizes = (tensor.num_bytes for tensor in operation.outputs)
    return sum(size for size in sizes if size > MAPPED_BYTES) / _PAGE_BYTES


def call_seconds(operations: Sequence[Operation | None], seconds: Floats, is_free: Sequence[bool]) -> float:
    """What a call takes: the median of operators that do little else; 0 where none was recorded.

    Args:
        operations: None where an operator does no work of its own.
        is_free: Which operators do none at all; of them where all others work much.
    """
    little = [operation is not None and in_calls(operation) < 1.25 for operation in operations]
    for chosen in (little, is_free):
        if any(chosen):
            return float(np.median(seconds[np.array(chosen, dtype=np.bool_)]))
    return 0.0


def work_ratios(
    recorded: Sequence[Operation | None],
    wanted: Sequence[Operation | None],
    seconds: Floats,
    default: Floats,
) -> Ratios:
    """Ratios on the same processor without a cost model; growth beyond the call may be a third off.

    Args:
        seconds: Recorded, of each.
        default: Ratios of works that no rule knows.
    """
    count = len(recorded)
    ratio, low, high = default.copy(), default.copy(), default.copy()
    provenance: list[Provenance] = [BOUNDED] * count
    for index, (old, new) in enumerate(zip(recorded, wanted, strict=True)):
        if old is not None and new is not None:
            own = float(seconds[index])
            ratio[index] = _with_faults(old, new, own, FAULT_SECONDS)
            low[index], high[index] = sorted(
                _with_faults(old, new, own, fault) for fault in (FAULT_SECONDS_LOW, FAULT_SECONDS_HIGH)
            )
            provenance[index] = PRICED
    spread = np.abs(ratio - 1) / 3
    return Ratios(ratio, np.minimum(low, ratio - spread), np.maximum(high, ratio + spread), tuple(provenance))


def _with_faults(old: Operation, new: Operation, seconds: float, fault_seconds: float) -> float:
    """New over recorded time, with page faults of results that one of both maps and the other does not."""
    growth = in_calls(new) / in_calls(old)
    were, will = mapped_pages(old), mapped_pages(new)
    if seconds <= 0 or bool(were) == bool(will):
        return growth
    if will:
        return growth + will * fault_seconds / seconds
    return growth * (1 - min(_MOST_FAULTS, were * fault_seconds / seconds))
