"""The simulated allocator beside the real one, request by request, with blocks that several streams use."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np

from perfcast.evidence.gpu_check.place import Found, LeftOutError, Place
from perfcast.evidence.gpu_check.result import CheckRow
from perfcast.measure.allocator import ReplayDevice, replay_allocator
from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorEvent,
    Free,
    RecordStream,
    Synchronize,
    parse_allocator_settings,
    simulate_allocator,
)
from perfcast.units import KIB, MIB

_NUM_EVENTS, _NUM_STREAMS, _MOST_HELD = 3000, 3, 120


def check_streams(place: Place, device: ReplayDevice | None = None) -> Found:
    """Requests drawn by a fixed seed, made for real and simulated.

    Args:
        device: A stand-in for the real allocator.
    """
    if place.is_dry and device is None:
        raise LeftOutError("a processor has no caching allocator to hold the simulation against")
    events = draw_events()
    simulated = simulate_allocator(events, parse_allocator_settings(""))
    measured = replay_allocator(events, device)
    count = min(len(measured.reserved_bytes), len(simulated.reserved_bytes))
    same = measured.reserved_bytes[:count] == simulated.reserved_bytes[:count]
    rows = (
        CheckRow(
            what="streams: most reserved", unit="B", measured=float(measured.reserved_bytes.max()),
            forecast=float(simulated.reserved_bytes.max()), note=f"{count} requests, {_NUM_STREAMS} streams",
        ),
        CheckRow(
            what="streams: requests after which both hold the same", unit="share",
            measured=float(np.mean(same)), forecast=1.0,
        ),
    )  # fmt: skip
    differs = np.flatnonzero(~same)
    first = int(differs[0]) if len(differs) else None
    return Found(rows, {"first_difference": first, "failed_at": measured.failed_at})


def draw_events() -> list[AllocatorEvent]:
    """Blocks of 512 bytes to 64 MiB on three streams, some used by others, which are waited for in turn.

    A block that other streams used waits for them once it is given up. Streams here have no work, so a real
    one is through with it at some moment that nobody knows, a simulated one only when it is waited for: it is
    waited for at once, and both then have the block at the next request.
    """
    draw, held, following = random.Random(7), list[int](), 0
    used_on: defaultdict[int, set[int]] = defaultdict(set)
    events: list[AllocatorEvent] = []
    while len(events) < _NUM_EVENTS:
        turn = draw.random()
        if turn < 0.05:
            events.append(Synchronize(draw.randrange(_NUM_STREAMS)))
        elif turn < 0.15 and held:
            block, stream = draw.choice(held), draw.randrange(_NUM_STREAMS)
            used_on[block].add(stream)
            events.append(RecordStream(block, stream))
        elif held and (len(held) >= _MOST_HELD or turn < 0.5):
            block = held.pop(draw.randrange(len(held)))
            events.append(Free(block))
            events += [Synchronize(stream) for stream in sorted(used_on.pop(block, ()))]
        else:
            size = int(2 ** draw.uniform(9, 26)) if turn < 0.9 else draw.choice((KIB, MIB, 20 * MIB))
            events.append(Allocate(following, size, draw.randrange(_NUM_STREAMS)))
            held.append(following)
            following += 1
    return [*events, Synchronize()]
