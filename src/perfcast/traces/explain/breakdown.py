"""What a rank's recording spent its time on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.operation import OperationKind
from perfcast.traces.collectives.kernels import is_communication
from perfcast.traces.collectives.sizes import TimedCollective, find_collectives
from perfcast.traces.events import NONE, Category, Codes
from perfcast.traces.explain.contexts import TracePhase
from perfcast.traces.explain.idle import DeviceTime, device_time, processor_time
from perfcast.traces.explain.work import Analysed, WindowWork, computing_spans, find_work, host_seconds
from perfcast.traces.spans import clip, union


@dataclass(frozen=True, slots=True)
class TimeShare:
    """Work of one label (a kind, a kernel, a module, a phase, an operator): its seconds and how often."""

    label: str
    seconds: float
    count: int
    kind: str = ""

    @property
    def mean_seconds(self) -> float:
        """Seconds of one such work."""
        return self.seconds / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class CollectiveShare:
    """Collectives of one name, size and group: how often, how long, how fast.

    ``transfer_seconds`` sums what they took on the rank that came last to each, where all ranks are known;
    else it equals ``seconds``.
    """

    name: str
    dtype: str
    message_bytes: int
    group: str
    group_size: int
    count: int
    seconds: float
    transfer_seconds: float
    bus_bytes: float

    @property
    def bus_bytes_per_second(self) -> float:
        """While transferring; 0 where the size is not known."""
        return self.bus_bytes * self.count / self.transfer_seconds if self.transfer_seconds > 0 else 0.0


@dataclass(frozen=True)
class Breakdown:
    """One rank's time in a window.

    Attributes:
        device: Its name in the recording; '' for a processor.
        on_device: Whether kernels were recorded; else operators' own times on the host stand for them.
        step_seconds: Of each marked step on the host.
        device_time: Where the device's time went; of a processor, with operators in the place of kernels.
        host_seconds: While operators or calls ran on some thread.
        kinds, phases, modules, operators, kernels, ranges: The most first.
    """

    source: str
    rank: int
    world_size: int
    platform: str
    device: str
    on_device: bool
    window_seconds: float
    step_seconds: tuple[tuple[int, float], ...]
    device_time: DeviceTime
    host_seconds: float
    num_launches: int
    kinds: tuple[TimeShare, ...]
    phases: tuple[TimeShare, ...]
    modules: tuple[TimeShare, ...]
    ranges: tuple[TimeShare, ...]
    operators: tuple[TimeShare, ...]
    kernels: tuple[TimeShare, ...]
    streams: tuple[TimeShare, ...]
    collectives: tuple[TimedCollective, ...]
    warnings: tuple[str, ...]


def break_down(analysed: Analysed) -> Breakdown:
    """Where the time of a rank's window went."""
    trace, work = analysed.trace, find_work(analysed)
    events, contexts = trace.events, analysed.contexts
    codes = events.name_codes[work.rows]
    operators = np.where(work.operators != NONE, events.name_codes[work.operators], NONE)
    collectives = find_collectives(trace, analysed.links, analysed.parents)
    return Breakdown(
        source=trace.source,
        rank=trace.rank,
        world_size=trace.world_size,
        platform=trace.platform,
        device=_device_name(analysed),
        on_device=analysed.on_device,
        window_seconds=analysed.high - analysed.low,
        step_seconds=tuple((step.number, step.seconds) for step in trace.steps),
        device_time=_device_time(analysed, collectives),
        host_seconds=host_seconds(analysed),
        num_launches=_num_launches(analysed),
        kinds=share((kind.value for kind in work.kinds), work.seconds),
        phases=share(_phases(analysed, work), work.seconds),
        modules=_contexts(contexts.modules, contexts.labels, work),
        ranges=_contexts(contexts.ranges, contexts.labels, work),
        operators=share((events.names[c] if c != NONE else "" for c in operators.tolist()), work.seconds),
        kernels=share((events.names[c] for c in codes.tolist()), work.seconds, work.kinds),
        streams=_streams(analysed, work),
        collectives=tuple(e for e in collectives if analysed.low <= e.start_seconds < analysed.high),
        warnings=trace.warnings,
    )


def share(
    labels: Iterable[str], seconds: Floats, kinds: Sequence[OperationKind] = ()
) -> tuple[TimeShare, ...]:
    """Seconds by label, the most first; a label's kind is that of its first."""
    sums: dict[str, tuple[float, int, int]] = {}
    for index, (label, own) in enumerate(zip(labels, seconds.tolist(), strict=True)):
        total, count, first = sums.get(label, (0.0, 0, index))
        sums[label] = (total + own, count + 1, first)
    shares = (
        TimeShare(label, total, count, kinds[first].value if kinds else "")
        for label, (total, count, first) in sums.items()
    )
    return tuple(sorted(shares, key=lambda item: (-item.seconds, item.label)))


def _num_launches(analysed: Analysed) -> int:
    """Works that calls within the window launched."""
    calls = analysed.links.calls[analysed.links.calls != NONE]
    begun = analysed.trace.events.start_seconds[calls]
    return int(((begun >= analysed.low) & (begun <= analysed.high)).sum())


def _phases(analysed: Analysed, work: WindowWork) -> list[str]:
    phases = analysed.contexts.phases[work.places].tolist()
    labels = {int(phase): phase.label for phase in TracePhase}
    return [labels[p] if place != NONE else "" for p, place in zip(phases, work.places.tolist(), strict=True)]


def _contexts(codes: Codes, labels: Sequence[str], work: WindowWork) -> tuple[TimeShare, ...]:
    """Time by module or range; nothing where the recording has none."""
    found = np.where(work.places != NONE, codes[work.places], 0)
    return share((labels[code] for code in found.tolist()), work.seconds) if found.any() else ()


def _streams(analysed: Analysed, work: WindowWork) -> tuple[TimeShare, ...]:
    if not analysed.on_device:
        return ()
    events = analysed.trace.events
    pairs = zip(events.devices[work.rows].tolist(), events.streams[work.rows].tolist(), strict=True)
    return share((f"device {device} stream {stream}" for device, stream in pairs), work.seconds)


def _device_time(analysed: Analysed, collectives: Sequence[TimedCollective]) -> DeviceTime:
    trace, rows = analysed.trace, analysed.links.rows
    if not analysed.on_device:
        starts = np.array([e.start_seconds for e in collectives], dtype=np.float64)
        ends = np.array([e.end_seconds for e in collectives], dtype=np.float64)
        communicating = union(*clip(starts, ends, analysed.low, analysed.high))
        return processor_time(computing_spans(analysed), communicating, analysed.low, analysed.high)
    codes = [code for code, name in enumerate(trace.events.names) if is_communication(name)]
    communicating_rows = np.isin(trace.events.name_codes[rows], codes)
    copies = np.isin(trace.events.categories[rows], [Category.MEMCPY, Category.MEMSET])
    return device_time(trace, analysed.links, communicating_rows, copies, analysed.low, analysed.high)


def _device_name(analysed: Analysed) -> str:
    """Name of the device on which the rank's work ran; '' for a processor, or where it has no name.

    ROCm numbers devices in events otherwise than in the list of them: of equal ones any is it.
    """
    if not analysed.on_device:
        return ""
    used = set(analysed.trace.events.devices[analysed.links.rows].tolist())
    named = {device.index: device.name for device in analysed.trace.devices if device.name}
    alike = set(named.values())
    found = next((named[index] for index in sorted(used) if index in named), "")
    return found or (next(iter(alike)) if len(alike) == 1 else "")
