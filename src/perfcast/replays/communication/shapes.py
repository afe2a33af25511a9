"""How much a collective of a program moves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from perfcast.replays.communication.groups import group_of
from perfcast.replays.program.program import Argument, ReplayCall, ReplayProgram, slots_in
from perfcast.traces.collectives.sizes import canonical_name, ring_elements
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE


@dataclass(frozen=True, slots=True)
class Shape:
    """How a collective's tensors lie: element counts of those received and sent, and how they are split."""

    received: tuple[int, ...]
    sent: tuple[int, ...]
    received_splits: tuple[int, ...]
    sent_splits: tuple[int, ...]


def shape_of(program: ReplayProgram, call: ReplayCall) -> Shape:
    """Element counts of a collective's tensors, and its splits."""
    collective = call.collective
    assert collective is not None
    received, sent = (_elements(program, argument) for argument in call.arguments[:2])
    return Shape(received, sent, collective.out_splits, collective.in_splits)


def _elements(program: ReplayProgram, argument: Argument) -> tuple[int, ...]:
    return tuple(prod(program.slots[slot].shape) for slot in slots_in((argument,)))


def bus_bytes(program: ReplayProgram, call: ReplayCall) -> float:
    """What a collective moves over the slowest link of a ring.

    The larger of what goes in and comes out × φ(n) (``core.collective.bus_factor``); of an
    all-to-all with uneven splits, what does not stay on this rank.
    """
    collective, shape = call.collective, shape_of(program, call)
    assert collective is not None
    key = group_of(collective, program.groups, program.world_size)
    name, size = canonical_name(collective.name), len(key.ranks)
    width = dtype_bytes(collective.dtype)
    place = key.ranks.index(program.rank) if program.rank in key.ranks else NONE
    splits = (shape.sent_splits, shape.received_splits) if name == "all_to_all" else ((), ())
    return ring_elements(name, sum(shape.sent), sum(shape.received), size, place, splits) * width
