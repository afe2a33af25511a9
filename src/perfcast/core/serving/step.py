"""One step of a serving program: what it computes, and the interface that says how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from perfcast.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one engine computes in one step.

    Attributes:
        sequences: That write: each has one new token (with speculation, the drafted ones too, which
            ``StepTimes`` knows).
        cached_tokens: Of the sequences that write, all tokens that they attend to, summed.
        prompts: Of which this step reads a part or the whole.
        prompt_tokens: New tokens of them, summed.
        prompt_pairs: Query-key pairs of those: of a chunk of c tokens behind d others, c · d + c (c + 1) / 2.
        ended_prompts: Of those, whose last token this step reads: each gives the first token of an answer.
    """

    sequences: int = 0
    cached_tokens: float = 0.0
    prompts: int = 0
    prompt_tokens: int = 0
    prompt_pairs: float = 0.0
    ended_prompts: int = 0


@dataclass(frozen=True, eq=False)
class StepBatches:
    """Many steps in columns; as ``StepBatch``, each column of shape (n,)."""

    sequences: Floats
    cached_tokens: Floats
    prompts: Floats
    prompt_tokens: Floats
    prompt_pairs: Floats
    ended_prompts: Floats


def batches_in_columns(batches: Sequence[StepBatch]) -> StepBatches:
    """The same steps, one a row."""
    rows = [
        (
            each.sequences,
            each.cached_tokens,
            each.prompts,
            each.prompt_tokens,
            each.prompt_pairs,
            each.ended_prompts,
        )
        for each in batches
    ]
    return StepBatches(*np.array(rows, dtype=np.float64).reshape(-1, 6).T)


class StepTimes(Protocol):
    """How long steps of one replica take. Who plays requests does not know where that comes from.

    Laws: positive; never less for more sequences of the same mean length, for longer ones, for more prompt
    tokens that see as many keys each, and for more keys; for equal sequences linear between its grid points
    in cached tokens (so that k steps of decoding, whose caches grow evenly, take k times the step in their
    middle).
    """

    @property
    def stages(self) -> int:
        """Pipeline stages: so many steps are under way at once, one behind the other."""
        ...

    def seconds(self, batch: StepBatch) -> float:
        """From the beginning of a step to that of the next, where steps follow each other on one stage."""
        ...

    def seconds_of(self, batches: StepBatches) -> Floats:
        """The same of many, shape (n,)."""
        ...

    def seconds_together(self, batches: StepBatches, num_ranks: int) -> float:
        """Of one step of attention data-parallel ranks, a row each, the others of them having nothing to do:
        the slowest's own part, and what they share (experts) at the mean of their tokens."""
        ...

    def latency_seconds(self, batch: StepBatch) -> float:
        """Through all stages, until the tokens are there; ``seconds`` where there is one stage."""
        ...

    def seconds_by_bound(self, batches: StepBatches) -> Floats:
        """Seconds of many steps by what bounds them: 'compute', 'memory', 'communication' and 'host'
        (``core.serving.tabulated.BOUNDS``), of sum ``seconds_of``, shape (n, 4)."""
        ...
