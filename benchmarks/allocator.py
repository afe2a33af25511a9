"""Events per second of the simulated caching allocator; each case three times, the fastest counts.

Run by hand: ``python benchmarks/allocator.py``. The random case keeps 2,000 blocks of mixed sizes alive, the
training case makes and drops the activations of 500 layers. Prints one line per case with the rate that it is
meant to stay above.
"""

from __future__ import annotations

import os
import platform
import random
import time
from collections.abc import Sequence

from goals import Row, report

from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorEvent,
    Free,
    parse_allocator_settings,
    simulate_allocator,
)
from perfcast.units import KIB, MIB

LEAST_EVENTS_PER_SECOND = 100_000
NUM_EVENTS = 200_000
SETTINGS = ("", "expandable_segments:True", "max_split_size_mb:64")


def main() -> int:
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{'events':10} {'settings':28} {'count':>8} {'seconds':>8} {'events/s':>10} {'at least':>9}")
    rows = []
    for name, events in (("random", random_events()), ("training", training_events())):
        for text in SETTINGS:
            seconds = min(timed(events, text) for _ in range(3))
            rate = len(events) / seconds
            what = f"{name} events, {text or 'default'}"
            rows.append(Row(what, rate, "1/CPU s", LEAST_EVENTS_PER_SECOND, "at least", "stated here"))
            line = f"{name:10} {text or 'default':28} {len(events):8d} {seconds:8.2f}"
            print(f"{line} {rate:10,.0f} {LEAST_EVENTS_PER_SECOND:9,}")
    return report(rows)


def timed(events: Sequence[AllocatorEvent], settings: str) -> float:
    """Processor seconds of one simulation, which has one thread."""
    chosen = parse_allocator_settings(settings)
    began = time.process_time()
    simulate_allocator(events, chosen)
    return time.process_time() - began


def random_events() -> list[AllocatorEvent]:
    """Blocks of 512 bytes to 64 MiB, made and dropped at random."""
    draw, held = random.Random(0), list[int]()
    events: list[AllocatorEvent] = []
    while len(events) < NUM_EVENTS:
        if len(held) >= 2000 or (held and draw.random() < 0.45):
            position = draw.randrange(len(held))
            held[position], held[-1] = held[-1], held[position]
            events.append(Free(held.pop()))
        else:
            size = draw.choice([draw.randint(1, 64 * KIB), draw.randint(1, MIB), draw.randint(1, 64 * MIB)])
            events.append(Allocate(len(events), size))
            held.append(len(events) - 1)
    return events


def training_events() -> list[AllocatorEvent]:
    """Steps whose layers each make eight activations forward, dropped backward among passing gradients."""
    events: list[AllocatorEvent] = []
    sizes = [32 * MIB, 8 * KIB, 96 * MIB, 32 * MIB, 2 * MIB, 32 * MIB, 128 * MIB, 128 * MIB]
    while len(events) < NUM_EVENTS:
        made = []
        for size in sizes * 500:
            made.append((len(events), size))
            events.append(Allocate(len(events), size))
        for block, size in reversed(made):
            gradient = len(events)
            events += [Allocate(gradient, size), Free(block), Free(gradient)]
    return events


if __name__ == "__main__":
    raise SystemExit(main())
