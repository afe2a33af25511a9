"""A program whose times are known within an interval, and what its prices rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfcast.traces.forecast.ratios import Provenance
from perfcast.traces.timeline.program import RankProgram


@dataclass(frozen=True)
class Variant:
    """A rank's program at its best estimate, at the low and at the high end.

    Attributes:
        seconds_by_provenance: Recorded seconds of device works (on a processor: of operators) by what their
            new price rests on.
    """

    middle: RankProgram
    low: RankProgram
    high: RankProgram
    seconds_by_provenance: Mapping[Provenance, float] = field(default_factory=dict)

    @classmethod
    def certain(cls, program: RankProgram) -> Variant:
        """A program at its recorded times."""
        return cls(program, program, program)

    def map(self, change: Callable[[RankProgram], RankProgram]) -> Variant:
        """All three changed alike."""
        return Variant(change(self.middle), change(self.low), change(self.high), self.seconds_by_provenance)
