"""Steps that take so many times as long as others."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.arrays import Floats
from perfcast.core.serving.step import StepBatch, StepBatches, StepTimes


@dataclass(frozen=True)
class ScaledSteps:
    """Every step of ``times``, ``factor`` times as long; what bounds it stays.

    Attributes:
        times: Of which steps.
        factor: Above 0.
    """

    times: StepTimes
    factor: float

    @property
    def stages(self) -> int:
        """As of ``times``."""
        return self.times.stages

    def seconds(self, batch: StepBatch) -> float:
        """From the beginning of a step to that of the next."""
        return self.factor * self.times.seconds(batch)

    def seconds_of(self, batches: StepBatches) -> Floats:
        """The same of many, shape (n,)."""
        return self.factor * self.times.seconds_of(batches)

    def seconds_together(self, batches: StepBatches, num_ranks: int) -> float:
        """Of one step of ranks that share experts."""
        return self.factor * self.times.seconds_together(batches, num_ranks)

    def latency_seconds(self, batch: StepBatch) -> float:
        """Through all stages."""
        return self.factor * self.times.latency_seconds(batch)

    def seconds_by_bound(self, batches: StepBatches) -> Floats:
        """Of many, by what bounds them, shape (n, 4)."""
        return self.factor * self.times.seconds_by_bound(batches)
