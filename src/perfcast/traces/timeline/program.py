"""A recorded rank as a program that can run again: what its host did, what it launched, what waited for what.

The host of one rank is one or more chains of pieces. A piece is a stretch of host time of one kind (the five
overheads of Lin et al., TPDS 2024) without any waiting. What it launches starts no earlier than the piece;
what it awaits must have ended first. Device work runs in order on its stream.

Durations come from the recording, from an overhead profile, or from a cost model; the structure stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Overhead(Enum):
    """Kinds of host time; T1 to T5 as Lin et al. number them."""

    BETWEEN = "T1"  # between two outermost operators
    BEFORE = "T2"  # from an operator's start to its first launch
    AFTER = "T3"  # from its last launch to its end
    CALL = "T4"  # a launch or another call of the device's runtime, without waiting
    INSIDE = "T5"  # between two launches of one operator; a whole operator that launches nothing

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class HostPiece:
    """A stretch of host time.

    Attributes:
        key: What it is: (before, after) for T1, the operator for T2, T3, T5, the call for T4.
        seconds: Without waiting.
        launches: Device works that the piece's start issues.
        awaits: Device works that must have ended before it starts.
        after: A piece of another chain that must have ended before it starts, or -1.
        position: Place in its step; equal programs on other ranks or in other steps have equal places.
        occurrence: How often such a piece (kind, key and range) came before in its step.
        where: Innermost marked range ('## forward ##') around it; '' if there is none.
        row: The outermost operator that it is part of, in the trace's events; -1 between operators.
        span: From when to when it was recorded, on the trace's clock.
    """

    chain: int
    overhead: Overhead
    key: tuple[str, ...]
    seconds: float
    launches: tuple[int, ...] = ()
    awaits: tuple[int, ...] = ()
    after: int = -1
    step: int = 0
    position: int = 0
    occurrence: int = 0
    where: str = ""
    row: int = -1
    span: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """One kernel, copy or fill, or on a processor one collective that another thread carries out.

    It ends at max(launch + delay, end of what it awaits + gap) + seconds, unless it is a collective, which
    starts with its last member.

    Attributes:
        row: In the trace's events.
        stream: Index into ``RankProgram.streams``.
        awaits: Works of other streams.
        collective: Name of the instance that it is this rank's part of; '' if it is none.
        operator: Row of the innermost operator that launched it, or -1.
        unexplained_seconds: Of its delay: what its stream stood idle before it though it was launched and
            all that it is known to wait for had ended.
    """

    row: int
    name: str
    stream: int
    seconds: float
    delay_seconds: float = 0.0
    gap_seconds: float = 0.0
    awaits: tuple[int, ...] = ()
    collective: str = ""
    operator: int = -1
    step: int = 0
    unexplained_seconds: float = 0.0

    @property
    def lead_seconds(self) -> float:
        """From its launch to the moment from which it stands behind nothing but its gap."""
        return max(0.0, self.delay_seconds - self.gap_seconds)

    def without_unexplained(self) -> DeviceWork:
        """The same work without the pause before it that nothing recorded explains."""
        delay = max(0.0, self.delay_seconds - self.unexplained_seconds)
        return replace(self, delay_seconds=delay, unexplained_seconds=0.0)


@dataclass(frozen=True, slots=True)
class StepSpan:
    """A step in a program: the pieces that begin and end it, and how long it was recorded to take."""

    number: int
    first_piece: int
    last_piece: int
    measured_seconds: float


@dataclass(frozen=True)
class RankProgram:
    """One rank.

    Attributes:
        offset_seconds: When it starts, after the rank that starts first.
        pieces: Those of one chain stand in their order; chains may alternate.
        works: In the order of their streams.
        chains, streams: Names.
        queue_length: Works that a stream holds before a launch blocks; 0 where that is not known.
    """

    rank: int
    offset_seconds: float
    pieces: tuple[HostPiece, ...]
    works: tuple[DeviceWork, ...]
    chains: tuple[str, ...]
    streams: tuple[str, ...]
    steps: tuple[StepSpan, ...]
    queue_length: int = 0

    @property
    def measured_seconds(self) -> tuple[float, ...]:
        """Seconds of each step, as recorded."""
        return tuple(step.measured_seconds for step in self.steps)

    def with_piece_seconds(self, seconds: Sequence[float]) -> RankProgram:
        """The same program with other host times, one for each piece."""
        pieces = (replace(p, seconds=float(s)) for p, s in zip(self.pieces, seconds, strict=True))
        return replace(self, pieces=tuple(pieces))

    def without_unexplained(self) -> RankProgram:
        """The same program without its streams' pauses that nothing recorded explains."""
        works = (
            replace(
                w, delay_seconds=max(0.0, w.delay_seconds - w.unexplained_seconds), unexplained_seconds=0.0
            )
            if w.unexplained_seconds
            else w
            for w in self.works
        )
        return replace(self, works=tuple(works))

    def with_work_seconds(self, seconds: Sequence[float]) -> RankProgram:
        """The same program with other device times, one for each work."""
        works = (replace(w, seconds=float(s)) for w, s in zip(self.works, seconds, strict=True))
        return replace(self, works=tuple(works))
