"""Time of a sequence of calls on one rank: a layer's forward, its backward, an optimizer.

A sequence is a unit of the pipeline's simulation. It is played once for every different one; what the
pipeline needs to know of it is its seconds, by cause, and how far the host must be ahead of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.operation import OperationKind
from perfcast.core.work import Call, Stream
from perfcast.simulate.engine import play
from perfcast.simulate.program import Lane, Program

#: What exposed time of a stream counts as.
CAUSE_OF_STREAM: Mapping[Stream, str] = {
    Stream.COMPUTE: "compute",
    Stream.TENSOR: "tensor",
    Stream.CONTEXT: "context",
    Stream.EXPERT: "expert",
    Stream.DATA: "data",
    Stream.PIPELINE: "pipeline",
    Stream.COPY: "offload",
}
#: A rank's own work, collectives and waiting left out.
OWN_WORK = ("compute", "recompute", "optimizer")


@dataclass(frozen=True, slots=True)
class CallsTime:
    """A sequence of calls that starts when its rank's streams are idle.

    Attributes:
        seconds: Until all calls have ended, where the host is far ahead.
        seconds_by_cause: They add up to ``seconds``: compute, and exposed communication.
        hidden_seconds: Of communication beside compute.
        host_seconds: For which the host issues the sequence.
        lead_seconds: How long the host must have been issuing when the sequence starts, lest it wait.
        calls, starts, ends: What was played, in seconds from the start of the sequence.
    """

    seconds: float
    seconds_by_cause: Mapping[str, float]
    hidden_seconds: float = 0.0
    host_seconds: float = 0.0
    lead_seconds: float = 0.0
    calls: Sequence[Call] = ()
    starts: Sequence[float] = ()
    ends: Sequence[float] = ()

    @property
    def compute_seconds(self) -> float:
        """Of the rank's own work, what it computes again included."""
        return sum(self.seconds_by_cause.get(cause, 0.0) for cause in OWN_WORK)

    @property
    def communication_seconds(self) -> float:
        """What is not the rank's own work."""
        return self.seconds - self.compute_seconds


NO_TIME = CallsTime(0.0, {})


def time_calls(
    calls: Sequence[Call],
    seconds: Sequence[float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
) -> CallsTime:
    """Play a sequence of calls.

    Args:
        seconds: Of each call, all its repetitions.
        launch_seconds: Between two launches of the host.
        slowdown: Factors of compute and of communication while both run.
    """
    if not calls:
        return NO_TIME
    starts, ends = _in_order(calls, seconds)
    if max(slowdown) > 1 and _overlaps(calls, starts, ends):
        played = play(_program(calls, seconds, slowdown))
        starts, ends = played.starts.tolist(), played.ends.tolist()
    total = max(ends)
    causes, hidden = _split_causes(calls, seconds, starts, ends)
    host = lead = 0.0
    if launch_seconds:
        host = launch_seconds * sum(call.count * call.num_launches for call in calls)
        durations = [e - s for s, e in zip(starts, ends, strict=True)]
        paced = _seconds_between_waits(calls, durations, launch_seconds)
        if paced > total:
            causes["host"] = causes.get("host", 0.0) + paced - total
            total = paced
        _, late = _in_order(calls, durations, launch_seconds)
        lead = min(max(max(late) - total, 0.0), host)
    return CallsTime(total, causes, hidden, host, lead, calls, starts, ends)


def _in_order(
    calls: Sequence[Call], seconds: Sequence[float], launch_seconds: float = 0.0, issued: float = 0.0
) -> tuple[list[float], list[float]]:
    """Starts and ends without slowdowns: the longest ways through streams, dependencies and launches.

    The host issues call after call; one of several launches (n, of d seconds together) cannot end before the
    last of them is issued and d / n more have passed. The first is issued at ``issued``; behind a call whose
    result the host reads, it issues the next one anew.
    """
    free: dict[Stream, float] = {}
    starts: list[float] = []
    ends: list[float] = []
    for call, duration in zip(calls, seconds, strict=True):
        stream = call.stream
        start = free.get(stream, 0.0)
        for at in call.after:
            if ends[at] > start:
                start = ends[at]
        if launch_seconds:
            launches = call.count * call.num_launches
            last = (launches - 1) * (launch_seconds - duration / launches) if launches > 1 else 0.0
            last_issued = issued + last if last > 0 else issued
            if last_issued > start:
                start = last_issued
            issued += launches * launch_seconds
            if call.host_waits:
                issued = max(issued, start + duration + launch_seconds)
        end = start + duration
        starts.append(start)
        ends.append(end)
        free[stream] = end
    return starts, ends


def _seconds_between_waits(calls: Sequence[Call], seconds: Sequence[float], launch_seconds: float) -> float:
    """From the last call that the host waits for to the same call of an equal sequence behind this one.

    The host is no further than the device there, however far ahead it was, and has the next call to issue; 0
    where it waits for none.
    """
    first = max((at for at, call in enumerate(calls) if call.host_waits), default=-1) + 1
    if not first:
        return 0.0
    rest = len(calls) - first
    row = [call.behind(tuple(at - first for at in call.after if at >= first)) for call in calls[first:]]
    row += [
        call.behind(tuple(at + rest for at in call.after) or tuple(range(rest))) for call in calls[:first]
    ]
    _, ends = _in_order(row, [*seconds[first:], *seconds[:first]], launch_seconds, launch_seconds)
    return ends[-1]


def _overlaps(calls: Sequence[Call], starts: Sequence[float], ends: Sequence[float]) -> bool:
    """Whether a call starts before an earlier one of the other side, compute or communication, has ended."""
    latest = [0.0, 0.0]
    for call, start, end in zip(calls, starts, ends, strict=True):
        side = call.stream is Stream.COMPUTE
        if call.stream is Stream.COPY:
            continue
        if end > start and start < latest[not side]:
            return True
        latest[side] = max(latest[side], end)
    return False


def _program(calls: Sequence[Call], seconds: Sequence[float], slowdown: tuple[float, float]) -> Program:
    streams = list(dict.fromkeys(call.stream for call in calls))
    waits = [(task, at) for task, call in enumerate(calls) for at in call.after]
    return Program(
        [Lane(s.value, -1 if s is Stream.COPY else 0, s is not Stream.COMPUTE) for s in streams],
        [streams.index(call.stream) for call in calls],
        seconds,
        [task for task, _ in waits],
        [at for _, at in waits],
        slowdowns=[slowdown[call.stream is not Stream.COMPUTE] for call in calls],
        labels=[call.module for call in calls],
    )


def _split_causes(
    calls: Sequence[Call], seconds: Sequence[float], starts: Sequence[float], ends: Sequence[float]
) -> tuple[dict[str, float], float]:
    """Where the time of played calls goes, and the seconds of communication that compute hides.

    Compute counts as long as it would take alone; every idle moment of the compute stream to the collective
    under way that ends last; what communication slows compute down to them, by their hidden time.
    """
    causes: dict[str, float] = {}
    idle: list[tuple[float, float]] = []
    collectives: list[tuple[float, float, str]] = []
    clock, slowed = 0.0, 0.0
    for call, duration, start, end in zip(calls, seconds, starts, ends, strict=True):
        stream = call.stream
        if stream is Stream.COMPUTE:
            cause = _own_cause(call)
            causes[cause] = causes.get(cause, 0.0) + duration
            slowed += end - start - duration
            if start > clock:
                idle.append((clock, start))
            clock = end
        elif end > start:
            collectives.append((start, end, CAUSE_OF_STREAM[stream]))
    last = max(ends)
    if last > clock:
        idle.append((clock, last))
    hidden: dict[str, float] = {}
    for start, end, cause in collectives:
        hidden[cause] = hidden.get(cause, 0.0) + end - start
    for cause, value in _cover(idle, collectives).items():
        hidden[cause] = max(hidden[cause] - value, 0.0)
        causes[cause] = causes.get(cause, 0.0) + value
    total_hidden = sum(hidden.values())
    for cause, value in hidden.items():
        if slowed > 0 and total_hidden:
            causes[cause] = causes.get(cause, 0.0) + slowed * value / total_hidden
    return causes, total_hidden


def _own_cause(call: Call) -> str:
    """What a call on the compute stream counts as."""
    if call.operation.kind is OperationKind.OPTIMIZER:
        return "optimizer"
    return "recompute" if call.is_recomputed else "compute"


def _cover(
    idle: Sequence[tuple[float, float]], collectives: Sequence[tuple[float, float, str]]
) -> dict[str, float]:
    """Seconds of idle intervals by the collective that runs in them; of several, the one that ends last."""
    found: dict[str, float] = {}
    by_end = sorted(collectives, key=lambda collective: -collective[1])
    for low, high in idle:
        top = high
        for start, end, cause in by_end:
            if top <= low:
                break
            if start < top and end > low:
                begun = max(start, low)
                found[cause] = found.get(cause, 0.0) + top - begun
                top = begun
    return found
