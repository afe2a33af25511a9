"""A program whose times are known within an interval, and what its prices rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from perfcast.traces.forecast.ratios import Provenance
from perfcast.traces.forecast.unresolved import UnresolvedSize
from perfcast.traces.timeline.program import RankProgram


@dataclass(frozen=True)
class Variant:
    """A rank's program at its best estimate, at the low and at the high end.

    Attributes:
        seconds_by_provenance: Recorded seconds of device works (on a processor: of operators) by what their
            new price rests on.
        unresolved: Sizes of which the recording does not show whether they follow the batch.
    """

    middle: RankProgram
    low: RankProgram
    high: RankProgram
    seconds_by_provenance: Mapping[Provenance, float] = field(default_factory=dict)
    unresolved: tuple[UnresolvedSize, ...] = ()

    @classmethod
    def certain(cls, program: RankProgram) -> Variant:
        """A program at its recorded times."""
        return cls(program, program, program)

    def map(self, change: Callable[[RankProgram], RankProgram]) -> Variant:
        """All three changed alike."""
        return replace(self, middle=change(self.middle), low=change(self.low), high=change(self.high))
