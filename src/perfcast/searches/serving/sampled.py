"""Step times of many replicas, looked up at once.

Requests of one kind make a step a function of two numbers: sequences that write, and prompts that are read.
Each replica's table is sampled on a grid of both, and rows of any replicas are then read off together,
linearly between grid points that lie √2 apart (what is played by events takes the tables themselves).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.serving.step import StepBatch, StepBatches
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.simulate.closed_form.serving.cycle import batches_of
from perfcast.simulate.closed_form.serving.work import RequestWork

#: Sequences that write, and prompts (or parts of one), that are sampled.
WRITERS = np.concatenate([[0.0, 1.0], np.unique(np.round(2.0 ** np.arange(0.5, 13.5, 0.5)))])
PROMPTS = 2.0 ** np.arange(-7.0, 7.5, 0.5)


@dataclass(frozen=True, eq=False)
class Samples:
    """Seconds of steps of k replicas, of all stages of a pipeline together.

    Attributes:
        new_tokens: Of a prompt.
        writing: With so many that write alone, shape (k, writers, bounds).
        reading: Beside so many prompts, shape (k, writers, prompts, bounds).
    """

    new_tokens: float
    writing: Floats
    reading: Floats


def sample_steps(work: RequestWork, tables: Sequence[TabulatedSteps]) -> Samples:
    """The tables on the grid."""
    writers, prompts = (each.ravel() for each in np.meshgrid(WRITERS, PROMPTS, indexing="ij"))
    mixed = batches_of(work, writers, prompts)
    pure = batches_of(work, np.maximum(WRITERS, 1.0), np.zeros_like(WRITERS))
    shape = (len(WRITERS), len(PROMPTS), -1)
    return Samples(
        work.new_tokens,
        np.stack([each.stages * each.seconds_by_bound(pure) for each in tables]),
        np.stack([(each.stages * each.seconds_by_bound(mixed)).reshape(shape) for each in tables]),
    )


@dataclass(frozen=True, eq=False)
class SampledSteps:
    """``StepTimes`` of n rows, row i of replica ``replica[i]``; batches have a row for each."""

    samples: Samples
    replica: Integers

    @property
    def stages(self) -> int:
        """The samples hold all stages."""
        return 1

    def seconds_of(self, batches: StepBatches) -> Floats:
        """Of each row's step."""
        return np.asarray(self.seconds_by_bound(batches).sum(axis=1))

    def seconds_by_bound(self, batches: StepBatches) -> Floats:
        """The same by what bounds it, shape (n, 4)."""
        samples, rows = self.samples, self.replica
        low, share = _between(WRITERS, batches.sequences)
        writing = _mix(samples.writing[rows, low], samples.writing[rows, low + 1], share)
        at, part = _between(PROMPTS, batches.prompt_tokens / samples.new_tokens)
        reading = _mix(
            _mix(samples.reading[rows, low, at], samples.reading[rows, low, at + 1], part),
            _mix(samples.reading[rows, low + 1, at], samples.reading[rows, low + 1, at + 1], part),
            share,
        )
        return np.where((batches.prompt_tokens > 0)[:, None], reading, writing)

    def seconds(self, batch: StepBatch) -> float:
        """Of one batch: of one row alone."""
        return float(self.seconds_of(_one(batch))[0])

    def seconds_together(self, batches: StepBatches, num_ranks: int) -> float:
        """Of ranks in lockstep as the samples have them: each as busy as the busiest."""
        return float(self.seconds_of(batches).max())

    def latency_seconds(self, batch: StepBatch) -> float:
        """The same: the samples hold all stages."""
        return self.seconds(batch)


def _one(batch: StepBatch) -> StepBatches:
    columns = (
        batch.sequences, batch.cached_tokens, batch.prompts, batch.prompt_tokens, batch.prompt_pairs,
        batch.ended_prompts,
    )  # fmt: skip
    return StepBatches(*(np.array([float(each)]) for each in columns))


def _between(grid: Floats, values: Floats) -> tuple[Integers, Floats]:
    """The grid point below each value, and how far beyond it lies; further on beyond the last."""
    low = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, len(grid) - 2)
    share = np.maximum((values - grid[low]) / (grid[low + 1] - grid[low]), 0.0)
    return low, np.asarray(share)


def _mix(low: Floats, high: Floats, share: Floats) -> Floats:
    return np.asarray(low + share[:, None] * (high - low))
