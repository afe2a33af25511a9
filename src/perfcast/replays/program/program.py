"""What a replay does: which operators are called, with what, on which memory. Plain data without torch.

A program is made from an execution trace (``build``), changed as data (``combine``, ``scale``,
``device``), and then played (``player``), written as a stand-alone benchmark (``generate``) or exported.
Nothing in it is text to be evaluated: operators are names that were checked against the registered
namespaces, arguments are literals or places of tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import zip_longest
from typing import Literal, TypeAlias

from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE, Collective, ProcessGroup
from perfcast.traces.execution_trace.storages import reach_elements


class Fill(Enum):
    """What a given tensor holds before the program starts."""

    NORMAL = "normal"  # floating point: normal deviates with mean 0 and deviation ``scale``
    POSITIVE = "positive"  # floating point: uniform between two bounds, 0 or more
    ZEROS = "zeros"  # what only has to exist: never read as a place in another tensor
    UNIFORM = "uniform"  # whole numbers between two bounds, both included
    MASK = "mask"  # ``high`` elements true, evenly spaced; of numbers: such as add up to ``high``, evenly
    OFFSETS = "offsets"  # bag offsets: monotone from 0 to the number of lookups
    LOOKUPS = "lookups"  # embedding rows that are looked up as often as a reuse histogram says
    PERMUTATION = "permutation"  # every whole number below the size once
    RECORDED = "recorded"  # the very values, from a file beside the trace


@dataclass(frozen=True, slots=True)
class Filling:
    """How one given tensor is filled, and why so: ``reason`` is said in the manifest.

    ``low`` and ``high`` bound the values (both included). ``reuse_fractions`` are the shares of touched
    rows by reuse bin (``core.embedding.ReuseHistogram``), only for ``LOOKUPS``. ``has_last``: the last of
    the ``OFFSETS`` is ``high`` itself, not where the last bag starts. ``path`` is the file of
    recorded values: its bytes are the elements, row by row.
    """

    kind: Fill
    low: float = 0
    high: float = 0
    scale: float = 1.0
    has_last: bool = False
    reuse_fractions: tuple[float, ...] = ()
    path: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """One life of one piece of memory.

    ``maker`` is the index of the call that allocates it, ``NONE`` where it must be there before the
    program starts. ``first_call`` and ``last_call`` are the calls between which it is used: it is
    allocated at the one and freed after the other.

    ``made_up``: of a given one, what it takes the place of: a result, as many as data say, or a tensor
    whose values are not known ('stand-in'); it is there between its first and its last call only.
    ``stays_until`` is the call of the next repetition before which it is freed, such as a gradient that is
    only then set to nothing; ``NONE`` where it is freed after its last call.
    """

    num_bytes: int
    device: str
    maker: int
    first_call: int
    last_call: int
    made_up: Literal["", "result", "stand-in"] = ""
    stays_until: int = NONE

    @property
    def is_given(self) -> bool:
        """Whether no call of the program makes it."""
        return self.maker == NONE


@dataclass(frozen=True, slots=True)
class Slot:
    """One tensor: a window onto a buffer. Offset, sizes and strides count elements; ``dtype`` 'float32'.

    ``maker`` is the index of the call that first has it among its outputs, ``NONE`` where it has to be
    taken out of its buffer: a given one (``filling`` says with what in it), or one that a call made
    through another slot. No two slots of a step are the same window onto the same buffer. ``stands_for`` is
    the slot whose place a stand-in takes in a call.
    """

    buffer: int
    dtype: str
    offset_elements: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    maker: int = NONE
    filling: Filling | None = None
    stands_for: int = NONE

    @property
    def span_bytes(self) -> tuple[int, int]:
        """First byte of the buffer that the tensor reaches, and the byte after the last."""
        width = dtype_bytes(self.dtype)
        start = self.offset_elements * width
        return start, start + self.reach_elements * width

    @property
    def num_bytes(self) -> int:
        """Memory from its first byte to its last."""
        start, end = self.span_bytes
        return end - start

    @property
    def reach_elements(self) -> int:
        """Elements of memory from its first element to its last one, both included; 0 of an empty one."""
        return reach_elements(self.shape, self.strides)

    @property
    def is_whole(self) -> bool:
        """Whether its elements are whole numbers; truth values are none."""
        return self.dtype.startswith(("int", "uint"))

    @property
    def is_floating(self) -> bool:
        """Whether its elements are neither whole numbers nor truth values."""
        return not self.is_whole and self.dtype != "bool"


@dataclass(frozen=True, slots=True)
class SlotUse:
    """An argument that is a tensor: the index of its slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class DeviceName:
    """An argument that is a device, 'cpu' or 'cuda:0'."""

    name: str


#: What stands at a place of a call. Element types, layouts and memory formats are PyTorch's numbers.
Argument: TypeAlias = "SlotUse | DeviceName | int | float | bool | str | tuple[Argument, ...] | None"


class CallKind(Enum):
    """What a call does."""

    OPERATOR = "operator"
    COLLECTIVE = "collective"
    WAIT = "wait"
    IDLE = "idle"  # only the host gap before it: what was left out, or an injected delay


@dataclass(frozen=True, slots=True)
class ReplayCall:
    """One operator, collective or wait.

    ``operator`` is namespace and name ('aten::addmm'), ``overload`` '' for the default one; ``arguments``
    stand in the order of ``schema``; those it has beyond them take their defaults. ``outputs`` are the
    slots of the tensors that come out, in order, lists flattened, ``NONE`` where nobody asks for one or
    the tensor has a slot from before.

    The arguments of a collective are the tensors received, the tensors sent (tuples of ``SlotUse``, the
    same where it works in place) and the root or peer in its group, or ``None``. ``collective`` keeps
    sizes, splits, group and sequence number; ``waits_for`` (waits) is the index of the collective's call.
    A collective with ``is_asynchronous`` returns before it is done.

    ``gap_seconds`` is the host's time between the call before and this one, ``recorded_seconds`` its own
    in the recording: NaN where no timeline was at hand. ``stream`` is the device stream, ``NONE`` for the
    current one. ``module`` is the path of the labels under which it was called; ``step`` the number of the
    step, from 0. ``communication_seconds`` is how long a collective itself lasted in the recording, NaN where
    not known; where ``emulated_seconds`` is not NaN, it is not carried out but takes that long.
    ``is_differentiated``: autograd noted it in the recording. ``inner_bytes`` is the most memory that the
    operators below it held at once, beside its arguments and results.
    """

    node_id: int
    kind: CallKind
    operator: str
    overload: str
    schema: str
    arguments: tuple[Argument, ...]
    outputs: tuple[int, ...] = ()
    gap_seconds: float = float("nan")
    recorded_seconds: float = float("nan")
    stream: int = NONE
    module: str = ""
    step: int = 0
    collective: Collective | None = None
    waits_for: int = NONE
    is_asynchronous: bool = False
    communication_seconds: float = float("nan")
    emulated_seconds: float = float("nan")
    is_differentiated: bool = False
    inner_bytes: int = 0

    @property
    def name(self) -> str:
        """Operator with its overload, as the schema begins."""
        return f"{self.operator}.{self.overload}" if self.overload else self.operator


@dataclass(frozen=True, slots=True)
class Skipped:
    """An operator of the selection that is not called, with the reason and its recorded time (NaN: unknown).

    ``is_harmless`` where nothing is lost by it: it does nothing on the device of the replay.
    """

    node_id: int
    operator: str
    reason: str
    recorded_seconds: float = float("nan")
    is_harmless: bool = False


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A generated kernel that is called as ``operator``: schema, name in its source, the source's file."""

    operator: str
    schema: str
    kernel: str
    path: str


@dataclass(frozen=True)
class ReplayProgram:
    """Calls in order, their tensors and memory.

    ``num_steps`` steps of the recording are in it. ``source_hash`` is the SHA-256 of the trace's bytes as
    read (after decompression). ``selection`` says in words what was taken. ``rank`` and ``world_size``
    are the recording's, or what it was scaled to. ``assumed`` says which sizes another batch only probably
    changes, or leaves, ``rebuilt`` which operators others stand for, ``kernels`` which are generated kernels.
    ``num_unselected`` calls of the same steps, which took ``unselected_seconds`` of the host, were left out
    by what was asked for (a part, a kind).
    """

    calls: tuple[ReplayCall, ...]
    slots: tuple[Slot, ...]
    buffers: tuple[Buffer, ...]
    groups: tuple[ProcessGroup, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    rank: int = 0
    world_size: int = 1
    num_steps: int = 1
    source: str = ""
    source_hash: str = ""
    selection: Mapping[str, str] = field(default_factory=dict)
    rebuilt: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    kernels: tuple[KernelSource, ...] = ()
    num_unselected: int = 0
    unselected_seconds: float = 0.0

    @property
    def peak_bytes(self) -> int:
        """The most memory that was alive at one call of the recording, over all devices.

        What was there before the first step stays; what is given to one of several steps is there during it.
        """
        return self._most_alive(self._recorded_lives(), [call.inner_bytes for call in self.calls])

    @property
    def least_bytes(self) -> int:
        """The most memory at one call where given tensors too are there between first and last use only."""
        return self._most_alive(
            (max(buffer.first_call, 0), buffer.last_call, buffer.num_bytes) for buffer in self.buffers
        )

    def _most_alive(self, lives: Iterable[tuple[int, int, int]], within: Sequence[int] = ()) -> int:
        """Of (first call, last call, bytes), and what each call holds ``within`` it."""
        changes = [0] * (len(self.calls) + 1)
        for first, last, num_bytes in lives:
            changes[first] += num_bytes
            changes[last + 1] -= num_bytes
        peak = alive = 0
        for change, inner in zip_longest(changes, within, fillvalue=0):
            alive += change
            peak = max(peak, alive + inner)
        return peak

    def _recorded_lives(self) -> Iterator[tuple[int, int, int]]:
        steps = {call.step: [index, index] for index, call in reversed(list(enumerate(self.calls)))}
        for index, call in enumerate(self.calls):
            steps[call.step][1] = index
        end = len(self.calls) - 1
        for buffer in self.buffers:
            first, last, num_bytes = max(buffer.first_call, 0), buffer.last_call, buffer.num_bytes
            if buffer.made_up == "stand-in" or not self.calls:
                continue
            if buffer.is_given and not buffer.made_up:
                step = self.calls[first].step
                is_of_one = self.calls[last].step == step
                yield (*(steps[step] if is_of_one else (0, end)), num_bytes)
            elif buffer.stays_until != NONE:
                yield first, end, num_bytes
                if buffer.stays_until:
                    yield 0, min(buffer.stays_until, first) - 1, num_bytes
            else:
                yield first, last, num_bytes


def slots_in(arguments: tuple[Argument, ...]) -> Iterator[int]:
    """The slots among arguments, also those in lists, in order."""
    for argument in arguments:
        if isinstance(argument, SlotUse):
            yield argument.slot
        elif isinstance(argument, tuple):
            yield from slots_in(argument)
