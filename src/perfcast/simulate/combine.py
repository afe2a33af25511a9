"""Sequences of calls put together: one after another, side by side, on a slower rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def beside_host(parts: Iterable[CallsTime]) -> Iterator[CallsTime]:
    """Sequences in a row whose host begins to issue the first when that begins, and waits for the last.

    What each ends later than with a host far ahead is its host's; the host is not ahead of what follows. All
    of them end no earlier than the host has issued the last.
    """
    before: list[tuple[CallsTime, int]] = []
    late = 0.0
    for part in parts:
        before.append((part, 1))
        row = in_a_row(before)
        lead = max(row.lead_seconds, row.host_seconds - row.seconds)
        yield _held_up(part, max(lead - late, 0.0))
        late = max(late, lead)


def _held_up(part: CallsTime, seconds: float) -> CallsTime:
    causes = dict(part.seconds_by_cause)
    if seconds:
        causes["host"] = causes.get("host", 0.0) + seconds
    return CallsTime(part.seconds + seconds, causes, part.hidden_seconds)


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
        max(part.seconds + extra, 0.0),  # with a factor of 0, rounding may leave less than nothing
        causes,
        part.hidden_seconds,
        part.host_seconds,
        max(part.lead_seconds - extra, 0.0),
    )


def beside_each_other(
    first: CallsTime, second: CallsTime, slowdown: tuple[float, float]
) -> tuple[CallsTime, CallsTime]:
    """A forward and a backward of two micro-batches that hide each other's dispatches of tokens.

    As ``joined``, but only what is exposed of the expert stream is hidden, and each of the two keeps its part
    of the rest (Megatron-LM: core/pipeline_parallel/combined_1f1b.py). The few passes of a step that have no
    other beside them are taken as the others.
    """
    exposed = [part.seconds_by_cause.get("expert", 0.0) for part in (first, second)]
    communication = sum(exposed)
    if not communication:
        return first, second
    compute = first.seconds + second.seconds - communication
    together = _together(compute, communication, slowdown)
    kept = max(together - compute, 0.0) / communication
    return _with_dispatch(first, kept), _with_dispatch(second, kept)


def _with_dispatch(part: CallsTime, kept: float) -> CallsTime:
    """With a share of its exposed dispatches."""
    exposed = part.seconds_by_cause.get("expert", 0.0)
    hidden = (1.0 - kept) * exposed
    scale = (part.seconds - hidden) / part.seconds if part.seconds else 1.0
    return CallsTime(
        part.seconds - hidden,
        {**part.seconds_by_cause, "expert": exposed - hidden} if exposed else part.seconds_by_cause,
        part.hidden_seconds + hidden,
        part.host_seconds,
        min(max(part.lead_seconds + hidden, 0.0), part.host_seconds) if part.lead_seconds else 0.0,
        part.calls,
        [scale * start for start in part.starts],
        [scale * end for end in part.ends],
    )


def _together(compute: float, communication: float, slowdown: tuple[float, float]) -> float:
    """Compute c and communication m side by side, slower by a and b while both run.

    Both run until the first is done, at min(a c, b m), and the other goes on alone.
    """
    slowed_compute, slowed_communication = slowdown[0] * compute, slowdown[1] * communication
    if slowed_compute <= slowed_communication:
        return slowed_compute + communication - slowed_compute / slowdown[1]
    return slowed_communication + compute - slowed_communication / slowdown[0]


def joined(first: CallsTime, second: CallsTime, slowdown: tuple[float, float]) -> CallsTime:
    """Two sequences side by side that hide each other's communication, as well as that can be.

    What is left of communication is shared among their causes in
    proportion.
    """
    compute = first.compute_seconds + second.compute_seconds
    communication = first.communication_seconds + second.communication_seconds
    seconds = _together(compute, communication, slowdown)
    both = in_a_row(((first, 1), (second, 1)))
    causes = dict(both.seconds_by_cause)
    share = (seconds - compute) / communication if communication else 0.0
    for cause in causes:
        if cause not in ("compute", "recompute"):
            causes[cause] *= share
    hidden = both.hidden_seconds + max(both.seconds - seconds, 0.0)
    lead = max(both.lead_seconds + both.seconds - seconds, 0.0) if both.lead_seconds else 0.0
    return CallsTime(seconds, causes, hidden, both.host_seconds, min(lead, both.host_seconds))
