"""What one rank's timeline trace holds: events in columns, and what the file says about itself.

Columns because a trace of 100 MB has half a million events. All columns of a ``Trace`` have the same
length and stand in one order: by start, then longest first, then as in the file, so that an event comes
after every event that contains it. An event is named by its row.

Seconds count from the trace's first event; ``origin_nanoseconds`` is that event's own clock reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Flags, Floats, Integers

Codes = NDArray[np.int32]

#: Stands in integer columns where an event has no such number.
NONE = -1


class Category(IntEnum):
    """What kind of event; in brackets the word of the file."""

    OPERATOR = 0  # [cpu_op] an operator or autograd node on a host thread
    ANNOTATION = 1  # [user_annotation] a marked range on a host thread
    RUNTIME = 2  # [cuda_runtime] a call of the device's runtime on a host thread
    DRIVER = 3  # [cuda_driver]
    KERNEL = 4  # [kernel] on a stream
    MEMCPY = 5  # [gpu_memcpy]
    MEMSET = 6  # [gpu_memset]
    DEVICE_ANNOTATION = 7  # [gpu_user_annotation] the device time under a marked range
    SYNCHRONIZATION = 8  # [cuda_sync] a wait, seen from the device
    PYTHON = 9  # [python_function] a frame, or a module's call
    OVERHEAD = 10  # [overhead] the profiler's own
    SPAN = 11  # [Trace] the whole recording
    OTHER = 12


#: On host threads, as part of the program.
HOST_CATEGORIES = (Category.OPERATOR, Category.ANNOTATION, Category.RUNTIME, Category.DRIVER, Category.PYTHON)
#: What launches device work or waits for it.
CALL_CATEGORIES = (Category.RUNTIME, Category.DRIVER)
#: Work that occupies a stream.
DEVICE_CATEGORIES = (Category.KERNEL, Category.MEMCPY, Category.MEMSET)


@dataclass(frozen=True, slots=True)
class Thread:
    """One host thread: the process and thread numbers of the file, and a name where it has one."""

    process: int
    number: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class OperatorInputs:
    """What an operator was called with, where shapes were recorded; one entry for each argument.

    ``shapes`` is nested for lists of tensors: ``((8, 64), (), ((3,), (4,)))``. ``values`` are texts as
    the file has them (``'[2, 2]'``, ``'False'``, ``''`` for tensors).
    """

    shapes: tuple[object, ...]
    types: tuple[str, ...]
    strides: tuple[object, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Synchronization:
    """A synchronisation event (rows of ``Category.SYNCHRONIZATION``); ``NONE`` where not said.

    ``kind`` is one of 'Stream Sync', 'Context Sync', 'Event Sync', 'Stream Wait Event'.
    ``wait_correlation`` is the correlation of the call that recorded the event waited for.
    """

    row: int
    kind: str
    stream: int
    waits_for_stream: int
    wait_correlation: int
    wait_event: int


@dataclass(frozen=True, slots=True)
class Collective:
    """What a row says of the collective that it is (a kernel) or asks for (an operator).

    ``name`` in the file's words, lower case (``allreduce``, ``all_to_allv``, …). ``sequence`` counts the
    collectives of a group where the file says it, else ``NONE``. ``ranks`` may be empty where only
    ``group_size`` is known. Splits are element counts, empty for even ones. Of a send or receive, ``peer``
    is the other rank, among all ranks, where the file says it, and ``tag`` tells messages apart.
    """

    row: int
    name: str
    in_elements: int
    out_elements: int
    dtype: str
    group: str
    group_size: int
    ranks: tuple[int, ...] = ()
    in_splits: tuple[int, ...] = ()
    out_splits: tuple[int, ...] = ()
    sequence: int = NONE
    peer: int = NONE
    tag: int = 0

    @property
    def is_message(self) -> bool:
        """Whether it is between two ranks: a send or a receive."""
        return self.name in ("send", "recv")

    def message(self, rank: int) -> tuple[int, int, int] | None:
        """Sender, receiver and tag of a message of ``rank``; None where its other rank is not known."""
        if self.peer == NONE:
            return None
        return (rank, self.peer, self.tag) if self.name == "send" else (self.peer, rank, self.tag)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A communicator; ``ranks`` are global, in the group's order."""

    name: str
    description: str
    backend: str
    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.ranks)


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """An accelerator as the trace describes it; ``other`` holds what has no field here."""

    index: int
    name: str
    memory_bytes: int
    num_multiprocessors: int
    other: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One marked iteration: its number and the row of its mark."""

    number: int
    row: int
    start_seconds: float
    end_seconds: float

    @property
    def seconds(self) -> float:
        """How long it lasted on the host."""
        return self.end_seconds - self.start_seconds


@dataclass(frozen=True)
class Events:
    """The columns. Integer columns hold ``NONE`` where an event has no such number.

    ``names[name_codes[i]]``, ``threads_table[threads[i]]`` and ``inputs_table[inputs[i]]`` are what the codes
    stand for. ``threads`` is ``NONE`` for device events, ``streams`` and ``devices`` are ``NONE`` for host
    events. ``orders`` is the event's place in the file. ``num_bytes`` is of copies and fills.
    """

    name_codes: Codes
    categories: NDArray[np.int8]
    start_seconds: Floats
    end_seconds: Floats
    threads: Codes
    devices: Codes
    streams: Integers
    correlations: Integers
    external_ids: Integers
    record_function_ids: Integers
    sequence_numbers: Integers
    forward_threads: Integers
    inputs: Codes
    num_bytes: Integers
    orders: Integers
    names: tuple[str, ...]
    threads_table: tuple[Thread, ...]
    inputs_table: tuple[OperatorInputs, ...]

    def __len__(self) -> int:
        return len(self.categories)

    def name(self, row: int) -> str:
        """The event's name."""
        return self.names[int(self.name_codes[row])]

    def category(self, row: int) -> Category:
        """The event's kind."""
        return Category(int(self.categories[row]))

    def seconds(self, row: int) -> float:
        """How long the event lasted."""
        return float(self.end_seconds[row] - self.start_seconds[row])

    def inputs_of(self, row: int) -> OperatorInputs | None:
        """What the operator was called with, or ``None`` where the file does not say."""
        code = int(self.inputs[row])
        return None if code == NONE else self.inputs_table[code]

    def is_in(self, *categories: Category) -> Flags:
        """Which rows are of one of these kinds (bool, one a row)."""
        return np.isin(self.categories, np.array(categories, dtype=np.int8))

    def rows_in(self, *categories: Category) -> Integers:
        """The rows of these kinds, in order."""
        return np.flatnonzero(self.is_in(*categories))

    def rows_named(self, *names: str) -> Integers:
        """The rows with one of these exact names, in order."""
        codes = [code for code, name in enumerate(self.names) if name in names]
        return np.flatnonzero(np.isin(self.name_codes, codes))


@dataclass(frozen=True)
class Trace:
    """One rank's recording.

    ``forward_backward`` is (pairs, 2): rows of a forward operator and of the backward one that it led to.
    ``collectives`` are in row order. ``process_groups`` are those the file lists or that its collectives
    name. ``rank`` and ``world_size`` are 0 and 1 where the file says nothing of others.
    ``metadata`` is what else stands at the file's top: short texts and numbers only.
    """

    source: str
    rank: int
    world_size: int
    backend: str
    origin_nanoseconds: int
    events: Events
    steps: tuple[Step, ...] = ()
    devices: tuple[DeviceProperties, ...] = ()
    process_groups: tuple[ProcessGroup, ...] = ()
    collectives: tuple[Collective, ...] = ()
    synchronizations: tuple[Synchronization, ...] = ()
    forward_backward: Integers = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def end_seconds(self) -> float:
        """When the last event ends."""
        return float(self.events.end_seconds.max(initial=0.0))

    @cached_property
    def platform(self) -> str:
        """'cuda', 'rocm' or 'cpu', by the calls that the trace holds."""
        events = self.events
        called = {events.names[code] for code in np.unique(events.name_codes[events.is_in(*CALL_CATEGORIES)])}
        if any(name.startswith("hip") for name in called):
            return "rocm"
        has_device_work = called or bool(events.is_in(*DEVICE_CATEGORIES).any())
        return "cuda" if has_device_work else "cpu"

    @cached_property
    def collective_by_row(self) -> Mapping[int, Collective]:
        """The collective that a row is or asks for."""
        return {collective.row: collective for collective in self.collectives}
