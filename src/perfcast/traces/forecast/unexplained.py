"""Pauses of a device that nothing recorded explains: how long, where, and what forecasts make of them.

A stream stands idle though the next work was launched and all that it is known to wait for had ended: an
event of a kind that the recording lacks, another process on the device, a module that is loaded. One rule
holds everywhere: a forecast keeps them as recorded; where anything is changed, the low end of its interval
is without them, since what is changed may be what they waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcast.traces.forecast.variant import Variant
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import format_seconds

#: Pauses that are named.
_NAMED = 3
#: Shares of a step below which pauses are not worth a line.
_WORTH_SAYING = 0.005


@dataclass(frozen=True, slots=True)
class UnexplainedGap:
    """A pause of a stream before a work that nothing recorded holds up.

    Attributes:
        before: The work's name.
        stream: Its stream.
        step: Place of the step in the recording, from 0.
        seconds: How long.
    """

    before: str
    stream: str
    step: int
    seconds: float


def unexplained_gaps(program: RankProgram) -> tuple[UnexplainedGap, ...]:
    """All of a rank, the longest first."""
    found = [
        UnexplainedGap(work.name, program.streams[work.stream], work.step, work.unexplained_seconds)
        for work in program.works
        if work.unexplained_seconds
    ]
    return tuple(sorted(found, key=lambda gap: -gap.seconds))


def describe_gaps(gaps: Sequence[UnexplainedGap], num_steps: int, step_seconds: float) -> list[str]:
    """A line on how much and where; nothing where that is next to nothing."""
    total = sum(gap.seconds for gap in gaps) / max(num_steps, 1)
    if not step_seconds or total < _WORTH_SAYING * step_seconds:
        return []
    longest = "; ".join(
        f"{format_seconds(gap.seconds)} before {gap.before[:40]} on {gap.stream}" for gap in gaps[:_NAMED]
    )
    return [
        f"unexplained: {format_seconds(total)} of a step in {len(gaps)} pauses of streams whose next work "
        f"was launched and waits for nothing recorded (longest: {longest}); they are kept as recorded, and "
        "where anything is changed the low end of the interval is without them"
    ]


def with_gaps_open(variants: Sequence[Variant]) -> list[Variant]:
    """Programs that are changed, their low ends without unexplained pauses."""
    return [replace(variant, low=variant.low.without_unexplained()) for variant in variants]
