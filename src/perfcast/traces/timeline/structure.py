"""What ran in a window of a recording, and what waited for what: the ground of programs and of paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.traces.collectives.kernels import is_communication
from perfcast.traces.events import Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.timeline.device import Launched, find_launched
from perfcast.traces.timeline.host import Chain, find_chains
from perfcast.traces.timeline.waits import Waits, find_waits


@dataclass(frozen=True)
class Structure:
    """Chains of the host, works of the device, and their waits; ``units`` gives the unit of each call."""

    chains: tuple[Chain, ...]
    launched: Launched
    waits: Waits
    units: Mapping[int, int]


def find_structure(trace: Trace, links: KernelLinks, start: float, end: float) -> Structure:
    """The structure of what starts between two moments; no chains where nothing runs on the host."""
    chains = find_chains(trace, start, end)
    launched = find_launched(trace, links, start, end)
    units = {call: unit.row for chain in chains for unit in chain.units for call in unit.calls}
    collectives = [work for work, row in enumerate(launched.rows) if is_communication(trace.events.name(row))]
    return Structure(chains, launched, find_waits(trace, launched, units, units, collectives), units)
