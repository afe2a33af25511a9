"""Every collective that a rank recorded: what it is, how large, how long, and how fast.

Bus bandwidth is NCCL's: message bytes / seconds × φ(n), ``core.collective.bus_factor``. The message is the
larger of what goes in and what comes out; of an all-to-all with uneven splits the rank's own part stays at
home and counts for neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.arrays import Integers
from perfcast.core.collective import bus_factor
from perfcast.traces.collectives.groups import is_address
from perfcast.traces.collectives.matching import CollectiveMember
from perfcast.traces.collectives.recorded import RecordedCollective, recorded_collectives
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE, Collective, Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.marks import GLOO

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


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """One collective as one rank carried it out: what took time, how much, and how long.

    ``recorded.RecordedCollective`` is the other end: what the program asked for, with the rows that carried
    it out.

    Attributes:
        row: The kernel, or on a processor the marked range of the thread that carried it out.
        host_row: The operator that asked for it, or ``NONE``.
        name: As in ``core.collective.COLLECTIVES``, or the recording's word where it is none of them.
        message_bytes: Full buffer; 0 where the recording does not say.
        bus_bytes: What crosses the slowest link of a ring: message × φ(n), or the uneven part; 0 likewise.
        group, group_size: Communicator; the size is the world's where the recording does not say.
        part: With which collectives of other ranks it is one; None for a message to or from nobody known.
    """

    row: int
    host_row: int
    name: str
    dtype: str
    message_bytes: int
    bus_bytes: float
    group: str
    group_size: int
    ranks: tuple[int, ...]
    start_seconds: float
    end_seconds: float
    part: CollectiveMember | None

    @property
    def seconds(self) -> float:
        """On this rank, waiting for others included."""
        return self.end_seconds - self.start_seconds

    @property
    def order(self) -> int:
        """Where it stands among the rank's: a kernel itself; what gloo does, where it was asked for."""
        return self.host_row if self.part is not None and self.part.key[0].startswith(GLOO) else self.row


def find_collectives(trace: Trace, links: KernelLinks, parents: Integers) -> tuple[TimedCollective, ...]:
    """All collectives that took time, in the order of their start.

    Kernels are those whose names say so, described by their own record, by what asked for them, or by
    what lies around them.
    """
    described = {row: one for one in recorded_collectives(trace, links, parents) for row in one.work_rows}
    streams: dict[int, int] = {}
    return tuple(
        _timed(trace, row, _own(trace, row, one.collective), one, streams)
        for row, one in sorted(described.items())
    )


def _own(trace: Trace, row: int, asked: Collective) -> Collective:
    """A kernel's own description, where it has one that says as much as what asked for it."""
    own = trace.collective_by_row.get(row, asked)
    return own if own.in_elements or not asked.in_elements else asked


def _timed(
    trace: Trace, row: int, collective: Collective, asked: RecordedCollective, streams: dict[int, int]
) -> TimedCollective:
    size, name = collective.group_size or trace.world_size, canonical_name(collective.name)
    width = dtype_bytes(collective.dtype)
    message_bytes = max(collective.in_elements, collective.out_elements) * width
    place = collective.ranks.index(trace.rank) if trace.rank in collective.ranks else NONE
    splits = (collective.in_splits, collective.out_splits)
    crossing = ring_elements(name, collective.in_elements, collective.out_elements, size, place, splits)
    return TimedCollective(
        row=row,
        host_row=asked.host_row,
        name=name,
        dtype=collective.dtype,
        message_bytes=message_bytes,
        bus_bytes=crossing * width,
        group=collective.group,
        group_size=size,
        ranks=collective.ranks,
        start_seconds=float(trace.events.start_seconds[row]),
        end_seconds=float(trace.events.end_seconds[row]),
        part=_part(trace, row, collective, asked.collective, streams),
    )


def ring_elements(
    name: str,
    sent: int,
    received: int,
    size: int,
    place: int = NONE,
    splits: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> float:
    """Elements that cross the slowest link of a ring: the message × φ(n); of a group of one, the message.

    Args:
        sent, received: What one rank puts in and gets.
        place: Its place in the group.
        splits: Sent to and received from each rank; with both and a place, what goes to itself is left out.
    """
    if place == NONE or not len(splits[0]) == len(splits[1]) == size:
        return max(sent, received) * (bus_factor(name, size) if size > 1 else 1.0)
    outside = (
        elements * (1 - own[place] / max(sum(own), 1))
        for elements, own in zip((sent, received), splits, strict=True)
    )
    return max(outside)


def _part(
    trace: Trace, row: int, collective: Collective, asked: Collective, streams: dict[int, int]
) -> CollectiveMember | None:
    """By group; where kernels do not say their group, by stream; a message by sender, receiver and tag.

    What gloo's threads carry out one beside the other is told apart by its name. Groups named by an address
    (before 1.0.3 of execution traces) have another name on each rank.
    """
    events = trace.events
    if asked.is_message:
        message = asked.message(trace.rank)
        return CollectiveMember(("message", *map(str, message)), size=2) if message is not None else None
    size, group = collective.group_size, collective.group
    if events.name(row).startswith(GLOO):
        return CollectiveMember((events.name(row), group), size=size)
    if not group:
        stream = streams.setdefault(int(events.streams[row]), len(streams))
        return CollectiveMember(("stream", str(stream)), collective.sequence, size)
    return CollectiveMember(
        ("group", "" if is_address(group) else group, ",".join(map(str, collective.ranks))),
        collective.sequence,
        size,
    )


def canonical_name(word: str) -> str:
    """A collective by one name for all its spellings: ``_allgather_base`` is ``all_gather``."""
    known = (name for pattern, name in _WORDS if pattern.search(word.lower()))
    return next(known, word.partition("(")[0])
