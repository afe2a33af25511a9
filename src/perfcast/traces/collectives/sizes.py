"""Every collective that a rank recorded: what it is, how large, how long, and how fast.

Bus bandwidth is NCCL's: message bytes / seconds × φ(n) with φ = 2(n−1)/n for an all-reduce, (n−1)/n for
all-gather, reduce-scatter and all-to-all, 1 for the rest. The message is the larger of what goes in and what
comes out; of an all-to-all with uneven splits the rank's own part stays at home and counts for neither.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.collectives.kernels import is_communication
from perfcast.traces.events import NONE, Category, Collective, Events, OperatorInputs, Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.marks import GLOO, NCCL

_BYTES = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "double": 8, "float64": 8, "long": 8, "long int": 8,
    "int64": 8, "half": 2, "float16": 2, "c10::half": 2, "bfloat16": 2, "c10::bfloat16": 2, "short": 2,
    "byte": 1, "char": 1, "unsigned char": 1, "signed char": 1, "int8": 1, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1,
}  # fmt: skip
_WORDS = (
    (re.compile(r"all_?reduce"), "all_reduce"),
    (re.compile(r"all_?gather"), "all_gather"),
    (re.compile(r"reduce_?scatter"), "reduce_scatter"),
    (re.compile(r"all_?to_?all"), "all_to_all"),
    (re.compile(r"broad_?cast"), "broadcast"),
    (re.compile(r"^_?reduce|[:_]reduce"), "reduce"),
    (re.compile(r"recv|receive"), "receive"),
    (re.compile(r"send"), "send"),
    (re.compile(r"gather"), "gather_to_root"),
    (re.compile(r"scatter"), "scatter_from_root"),
    (re.compile(r"barrier"), "barrier"),
)
#: Beginnings of names of operators and ranges that ask for a collective.
_ASKS = ("c10d::", NCCL)
_SPLIT = frozenset({"all_gather", "reduce_scatter", "all_to_all"})


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """One collective as one rank carried it out: what took time, how much, and how long.

    ``collectives.RecordedCollective`` is the other end: what the program asked for, with the rows that
    carried it out.

    Attributes:
        row: The kernel, or on a processor the marked range of the thread that carried it out.
        name: As in ``core.collective.COLLECTIVES``, or the recording's word where it is none of them.
        message_bytes: Full buffer; 0 where the recording does not say.
        bus_bytes: What crosses the slowest link of a ring: message × φ(n), or the uneven part; 0 likewise.
        group, group_size: Communicator; the size is the world's where the recording does not say.
    """

    row: int
    name: str
    dtype: str
    message_bytes: int
    bus_bytes: float
    group: str
    group_size: int
    ranks: tuple[int, ...]
    start_seconds: float
    end_seconds: float

    @property
    def seconds(self) -> float:
        """On this rank, waiting for others included."""
        return self.end_seconds - self.start_seconds


def find_collectives(trace: Trace, links: KernelLinks, parents: Integers) -> tuple[TimedCollective, ...]:
    """All collectives in the order of their start."""
    events = trace.events
    rows = [row for row in links.rows.tolist() if is_communication(events.name(row))]
    found = [_of_kernel(trace, row, links.call_of[row], parents) for row in rows]
    if not rows:
        names = [code for code, name in enumerate(events.names) if name.startswith(GLOO)]
        marked = np.flatnonzero(np.isin(events.name_codes, names) & events.is_in(Category.ANNOTATION))
        found = [_from_inputs(trace, row, row) for row in marked.tolist()]
    return tuple(found)


def _of_kernel(trace: Trace, row: int, call: int, parents: Integers) -> TimedCollective:
    known = trace.collective_by_row.get(row)
    around = call
    while known is None and around != NONE:
        around = int(parents[around])
        known = trace.collective_by_row.get(around)
        if around != NONE and known is None and trace.events.name(around).startswith(_ASKS):
            asked = _from_inputs(trace, row, around)
            if asked.message_bytes:
                return asked
    return _from_record(trace, row, known) if known is not None else _from_inputs(trace, row, row)


def _from_record(trace: Trace, row: int, known: Collective) -> TimedCollective:
    size, name = known.group_size or trace.world_size, canonical_name(known.name)
    width = _BYTES.get(known.dtype.lower(), 0)
    elements = max(known.in_elements, known.out_elements)
    bus = elements * width * bus_factor(name, size)
    rank = known.ranks.index(trace.rank) if trace.rank in known.ranks else NONE
    if rank != NONE and len(known.in_splits) == size and len(known.out_splits) == size:
        scale_in = known.in_elements / max(sum(known.in_splits), 1)
        scale_out = known.out_elements / max(sum(known.out_splits), 1)
        sent = known.in_elements - known.in_splits[rank] * scale_in
        received = known.out_elements - known.out_splits[rank] * scale_out
        bus = max(sent, received) * width
    return _collective(
        trace, row, name, known.dtype.lower(), elements * width, bus, known.group, size, known.ranks
    )


def _from_inputs(trace: Trace, row: int, operator: int) -> TimedCollective:
    """From the shapes that the operator was called with, where they were recorded."""
    events = trace.events
    name, inputs = canonical_name(events.name(operator)), events.inputs_of(operator)
    dtype, num_bytes = _largest(inputs) if inputs else ("", 0)
    bus = num_bytes * bus_factor(name, trace.world_size)
    return _collective(trace, row, name, dtype, num_bytes, bus, "", trace.world_size, ())


def _collective(
    trace: Trace, row: int, name: str, dtype: str, message: int, bus: float, group: str, size: int,
    ranks: tuple[int, ...],
) -> TimedCollective:  # fmt: skip
    events: Events = trace.events
    return TimedCollective(
        row, name, dtype, message, bus, group, size, ranks, float(events.start_seconds[row]),
        float(events.end_seconds[row]),
    )  # fmt: skip


def _largest(inputs: OperatorInputs) -> tuple[str, int]:
    """Element type and bytes of the largest argument; a list of tensors counts together."""
    best = ("", 0)
    for shape, type_ in zip(inputs.shapes, inputs.types, strict=False):
        dtype = type_.lower().replace("tensor(", "").replace("genericlist[", "").strip(")]")
        width = _BYTES.get(dtype.partition(",")[0].strip(")"), 0)
        elements = _num_elements(shape)
        if not width and dtype == "tensorlist":
            dtype, width = "float", 4
        best = max(best, (dtype, elements * width), key=lambda item: item[1])
    return best


def _num_elements(shape: object) -> int:
    if not isinstance(shape, tuple) or not shape:
        return 0
    if all(isinstance(size, int) for size in shape):
        return math.prod(size for size in shape if isinstance(size, int))
    return sum(_num_elements(part) for part in shape)


def canonical_name(word: str) -> str:
    """A collective by one name for all its spellings: ``_allgather_base`` is ``all_gather``."""
    known = (name for pattern, name in _WORDS if pattern.search(word.lower()))
    return next(known, word.partition("(")[0])


def bus_factor(name: str, size: int) -> float:
    """NCCL's factor from message to bus bandwidth."""
    if size < 2:
        return 1.0
    if name == "all_reduce":
        return 2 * (size - 1) / size
    return (size - 1) / size if name in _SPLIT else 1.0
