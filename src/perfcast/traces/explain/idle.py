"""Why a device stood still, and how communication and computing overlapped.

The device's time in a window is one of: computing (any kernel but a collective, copy or fill), communicating
alone, copying alone, or idle. An idle stretch ends with a work k that was launched at some moment:

* before that moment it is a wait for the host, which had not launched k yet;
* after it, up to a launch's usual delay, it is a wait for the kernel to start;
* what is left is a wait for something else: another stream's event, a full queue.

What follows the last work is a wait for the host. (The causes are those of HolisticTraceAnalysis; here a gap
is cut at the launch instead of being counted whole.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.traces.events import NONE, Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.spans import clip, gaps, overlap_seconds, total_seconds, union
from perfcast.units import MICRO

#: Longest wait between a launch and its kernel's start that is taken for the launch itself (the threshold
#: for consecutive kernels of HolisticTraceAnalysis).
KERNEL_WAIT_SECONDS = 30 * MICRO


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Where a device's time in a window went; the parts from ``compute_seconds`` on add up to the window.

    ``communication_seconds`` and ``overlap_seconds`` (of it, beside computing) are not part of that sum;
    ``exposed_communication_seconds``, the difference, is: the device waits for it.
    """

    window_seconds: float
    communication_seconds: float
    overlap_seconds: float
    compute_seconds: float
    exposed_communication_seconds: float
    copy_seconds: float
    host_wait_seconds: float
    kernel_wait_seconds: float
    other_wait_seconds: float

    @property
    def busy_seconds(self) -> float:
        """Any work on any stream."""
        return self.compute_seconds + self.exposed_communication_seconds + self.copy_seconds

    @property
    def idle_seconds(self) -> float:
        """No work on any stream."""
        return self.host_wait_seconds + self.kernel_wait_seconds + self.other_wait_seconds

    @property
    def host_bound_share(self) -> float:
        """Share of the window in which the device waits for the host."""
        return self.host_wait_seconds / self.window_seconds if self.window_seconds else 0.0


def device_time(
    trace: Trace, links: KernelLinks, is_communication: Flags, is_copy: Flags, low: float, high: float
) -> DeviceTime:
    """Where the device's time between two moments went.

    Args:
        is_communication, is_copy: Of each of ``links.rows``, whether it exchanges with other ranks, or only
            moves or fills memory.
    """
    events, rows = trace.events, links.rows
    starts, ends = clip(events.start_seconds[rows], events.end_seconds[rows], low, high)
    computes = ~(is_communication | is_copy)
    compute = union(starts[computes], ends[computes])
    communication = union(starts[is_communication], ends[is_communication])
    busy = union(starts, ends)
    first_two = union(
        np.concatenate([compute[0], communication[0]]), np.concatenate([compute[1], communication[1]])
    )
    host, kernel, other = _idle_causes(trace, links, busy, low, high)
    return DeviceTime(
        high - low,
        total_seconds(communication),
        overlap_seconds(compute, communication),
        total_seconds(compute),
        total_seconds(first_two) - total_seconds(compute),
        total_seconds(busy) - total_seconds(first_two),
        host,
        kernel,
        other,
    )


def processor_time(
    computing: tuple[Floats, Floats], communicating: tuple[Floats, Floats], low: float, high: float
) -> DeviceTime:
    """The same of a processor: operators compute, other threads exchange, and the rest is the program's own.

    Args:
        computing, communicating: Unions, within the window.
    """
    shared = overlap_seconds(computing, communicating)
    compute, communication = total_seconds(computing), total_seconds(communicating)
    host = high - low - compute - (communication - shared)
    return DeviceTime(
        high - low, communication, shared, compute, communication - shared, 0.0, max(0.0, host), 0.0, 0.0
    )


def _idle_causes(
    trace: Trace, links: KernelLinks, busy: tuple[Floats, Floats], low: float, high: float
) -> tuple[float, float, float]:
    """Seconds of idleness by cause: host, kernel, other."""
    events = trace.events
    begins, stops = gaps(busy, low, high)
    order = np.argsort(events.start_seconds[links.rows], kind="stable")
    starts = events.start_seconds[links.rows][order]
    launched = np.where(
        links.calls[order] != NONE,
        events.start_seconds[links.calls[order]],
        events.start_seconds[links.rows[order]],
    )
    place = np.searchsorted(starts, stops, side="left")
    is_tail = place >= len(starts)
    moment = np.where(is_tail, stops, launched[np.minimum(place, len(starts) - 1)]) if len(starts) else stops
    moment = np.clip(moment, begins, stops)
    after = stops - moment
    is_launch = after <= KERNEL_WAIT_SECONDS
    return (
        float((moment - begins).sum()),
        float(np.where(is_launch, after, 0.0).sum()),
        float(np.where(is_launch, 0.0, after).sum()),
    )
