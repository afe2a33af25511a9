"""Sequences of calls put together: one after another, side by side, on a slower rank."""

from __future__ import annotations

from collections.abc import Iterable

from perfcast.simulate.layer import CallsTime


def in_a_row(parts: Iterable[tuple[CallsTime, int]]) -> CallsTime:
    """Sequences one after another, each so many times; each starts when the one before it has ended.

    The host goes on issuing: part i ends no earlier than the host's start + what it issued before part i +
    part i's own seconds and lead; of equal parts, the first or the last decides.
    """
    seconds = hidden = host = late = 0.0
    causes: dict[str, float] = {}
    for part, count in parts:
        if not count:
            continue
        for cause, value in part.seconds_by_cause.items():
            causes[cause] = causes.get(cause, 0.0) + count * value
        own = part.seconds + part.lead_seconds
        first, last = own + (count - 1) * part.seconds, own + (count - 1) * part.host_seconds
        late = max(late + count * part.seconds, host + max(first, last))
        seconds += count * part.seconds
        hidden += count * part.hidden_seconds
        host += count * part.host_seconds
    return CallsTime(seconds, causes, hidden, host, max(late - seconds, 0.0) if host else 0.0)


def with_compute(part: CallsTime, seconds: float, host_seconds: float = 0.0) -> CallsTime:
    """With more of the rank's own work, and what the host issues beside it."""
    if not (seconds or host_seconds):
        return part
    causes = {**part.seconds_by_cause, "compute": part.seconds_by_cause.get("compute", 0.0) + seconds}
    return CallsTime(
        part.seconds + seconds,
        causes,
        part.hidden_seconds,
        part.host_seconds + host_seconds,
        part.lead_seconds,
    )


def slower(part: CallsTime, factor: float) -> CallsTime:
    """On a rank whose compute takes ``factor`` times as long; the rest is the straggler's."""
    extra = (factor - 1.0) * part.compute_seconds
    if not extra:
        return part
    causes = {**part.seconds_by_cause, "straggler": part.seconds_by_cause.get("straggler", 0.0) + extra}
    return CallsTime(
        part.seconds + extra,
        causes,
        part.hidden_seconds,
        part.host_seconds,
        max(part.lead_seconds - extra, 0.0),
    )


def joined(first: CallsTime, second: CallsTime, slowdown: tuple[float, float]) -> CallsTime:
    """Two sequences side by side that hide each other's communication, as well as that can be.

    With compute c, exposed communication m and slowdowns a, b: both run until the first is done, at min(a c,
    b m), and the other goes on alone. What is left of communication is shared among their causes in
    proportion.
    """
    compute = first.compute_seconds + second.compute_seconds
    communication = first.communication_seconds + second.communication_seconds
    slowed_compute, slowed_communication = slowdown[0] * compute, slowdown[1] * communication
    if slowed_compute <= slowed_communication:
        seconds = slowed_compute + communication - slowed_compute / slowdown[1]
    else:
        seconds = slowed_communication + compute - slowed_communication / slowdown[0]
    both = in_a_row(((first, 1), (second, 1)))
    causes = dict(both.seconds_by_cause)
    share = (seconds - compute) / communication if communication else 0.0
    for cause in causes:
        if cause not in ("compute", "recompute"):
            causes[cause] *= share
    hidden = both.hidden_seconds + max(both.seconds - seconds, 0.0)
    lead = max(both.lead_seconds + both.seconds - seconds, 0.0) if both.lead_seconds else 0.0
    return CallsTime(seconds, causes, hidden, both.host_seconds, min(lead, both.host_seconds))
