"""Steps of an engine from tables: what its parts take on grids of their sizes, added up.

The work of a step is a sum. With s sequences that write, each with 1 + k tokens (k of them drafted), and
prompts of t new tokens:

    device = tokens(s · (1 + k) + t)  products, norms, rotations, experts, sums over ranks
           + answers(s, keys of each) attention of one token (and the drafted) to the cache
           + prompts(t, keys of each) attention of new tokens to what stands before them
           + rows(s · (1 + k) + ended prompts)  logits and the draw
           + drafts(s)                what drafts the next k tokens

and the step is what the host makes of that (``core.serving.host``). A step that only decodes is replayed as
the next larger captured graph, as if it had that many tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.serving.grid import Curve, Surface
from perfcast.core.serving.host import NO_HOST, StepHost
from perfcast.core.serving.step import StepBatch, StepBatches

#: What bounds a part of a step's time on its device, in the order of the tables' last axis.
DEVICE_BOUNDS = ("compute", "memory", "communication")
#: The same of the whole step.
BOUNDS = (*DEVICE_BOUNDS, "host")


@dataclass(frozen=True, eq=False)
class TabulatedSteps:
    """Steps of one engine of a replica; the other engines of the replica compute as much meanwhile.

    Attributes:
        copies: Of each different pipeline stage, how many there are.
        answer_tokens: Over the tokens of a step that only decodes.
        mixed_tokens: Over all tokens of a step that also reads prompts.
        answers: Over sequences, and tokens that each attends to.
        prompts: Over new tokens, and the mean of the keys that each of them sees.
        rows: Over tokens of which logits are wanted.
        drafts: Over sequences; None where none are drafted.
        answer_shared, mixed_shared: Of the first two, what attention data-parallel ranks do together:
            experts, and tokens on their way to them and back; None where there is one rank.
        boundary: Over tokens: from one stage to the next; None where there is one stage.
        answer_launches, mixed_launches: Kernels of a step, of each different stage.
        host: Of each step.
        captured_tokens: Of the graphs of steps that only decode, rising; empty where none is captured.
        tokens_per_sequence: New ones in a step: one, and those drafted.
        low, high: Of the 90 % interval, over the estimate.
        assumptions: For the reader of the result.
    """

    copies: tuple[int, ...]
    answer_tokens: Curve
    mixed_tokens: Curve
    answers: Surface
    prompts: Surface
    rows: Curve
    drafts: Curve | None = None
    answer_shared: Curve | None = None
    mixed_shared: Curve | None = None
    boundary: Curve | None = None
    answer_launches: tuple[float, ...] = ()
    mixed_launches: tuple[float, ...] = ()
    host: StepHost = NO_HOST
    captured_tokens: tuple[int, ...] = ()
    tokens_per_sequence: int = 1
    low: float = 1.0
    high: float = 1.0
    assumptions: tuple[str, ...] = field(default=())

    @property
    def stages(self) -> int:
        """Pipeline stages: so many steps are under way at once, one behind the other."""
        return sum(self.copies)

    def seconds(self, batch: StepBatch) -> float:
        """From the beginning of a step to that of the next, where steps follow each other on one stage."""
        return self._around(max(self._stage_seconds(batch)), batch)

    def latency_seconds(self, batch: StepBatch) -> float:
        """Through all stages, until the tokens are there."""
        stages = self._stage_seconds(batch)
        device = sum(count * seconds for count, seconds in zip(self.copies, stages, strict=True))
        if self.boundary is not None:
            tokens = batch.sequences * self.tokens_per_sequence + batch.prompt_tokens
            device += (self.stages - 1) * self.boundary.totals(tokens)[0]
        return self._around(device, batch)

    def seconds_of(self, batches: StepBatches) -> Floats:
        """``seconds`` of many, shape (n,)."""
        device = np.maximum(self._device(batches).sum(axis=-1), self._issued(batches)).max(axis=0)
        return self.host.around(device, self.host.seconds(batches.sequences, batches.prompts))

    def seconds_together(self, batches: StepBatches, num_ranks: int) -> float:
        """Of one step of attention data-parallel ranks, a row each, the others having nothing to do.

        A step that is replayed as a graph is padded to the busiest rank's tokens (vLLM:
        v1/worker/dp_utils.py; SGLang: DpPaddingMode.MAX_LEN; TensorRT-LLM: cuda_graph_runner.py), so all
        take as long as the slowest. One in which some rank reads prompts is not: experts have the tokens that
        there are.
        """
        alone = self.seconds_of(batches)
        reads = batches.prompt_tokens > 0
        if self.answer_shared is None or self.mixed_shared is None or not reads.any():
            return float(alone.max())
        tokens = batches.sequences * self.tokens_per_sequence
        mean = (tokens + batches.prompt_tokens).sum(keepdims=True) / num_ranks
        answering = self.answer_shared.at(self._all_padded(tokens)).sum(axis=-1).max(axis=0)
        mixed = self.mixed_shared.at(tokens + batches.prompt_tokens).sum(axis=-1).max(axis=0)
        together = float(self.mixed_shared.at(mean).sum(axis=-1).max())
        own: Floats = np.maximum(alone - np.where(reads, mixed, answering), 0.0)
        return float(own.max()) + together

    def seconds_by_bound(self, batches: StepBatches) -> Floats:
        """The busiest stage's by what bounds them (``BOUNDS``), of sum ``seconds_of``, shape (n, 4).

        The host's are those in which the device waits for it.
        """
        device = self._device(batches)
        paced = np.maximum(device.sum(axis=-1), self._issued(batches))
        busiest = paced.argmax(axis=0)
        own = device[busiest, np.arange(len(busiest))]
        host = self.host.seconds(batches.sequences, batches.prompts)
        seconds = self.host.around(paced.max(axis=0), host)
        return np.concatenate([own, (seconds - own.sum(axis=-1))[:, None]], axis=-1)

    def _around(self, device: float, batch: StepBatch) -> float:
        host = self.host
        own = (
            host.fixed_seconds + host.sequence_seconds * batch.sequences + host.prompt_seconds * batch.prompts
        )
        return (max(device, own) if host.overlaps else device + own) + host.gap_seconds

    def _stage_seconds(self, batch: StepBatch) -> list[float]:
        """Of each different stage: of its device, or of its host where that issues kernels longer."""
        sequences, reads = batch.sequences, batch.prompt_tokens > 0
        tokens = sequences * self.tokens_per_sequence
        padded = self._padded(tokens)
        parts: list[Sequence[float]] = []
        answering = self.answer_tokens.totals(padded) if sequences else [0.0] * len(self.copies)
        if reads:
            mixed = self.mixed_tokens.totals(tokens + batch.prompt_tokens)
            parts.append([max(pair) for pair in zip(mixed, answering, strict=True)])
            parts.append(self.prompts.totals(batch.prompt_tokens, batch.prompt_pairs / batch.prompt_tokens))
        else:
            parts.append(answering)
        if sequences:
            parts.append(self.answers.totals(sequences, batch.cached_tokens / sequences))
            if self.drafts is not None:
                parts.append(self.drafts.totals(sequences))
        if tokens + batch.ended_prompts:
            parts.append(self.rows.totals(tokens + batch.ended_prompts))
        launch = self.host.launch_seconds
        launches = self.mixed_launches if reads else self.answer_launches
        if not launch or not launches or (not reads and self._is_captured(tokens)):
            return [sum(stage) for stage in zip(*parts, strict=True)]
        return [
            max(sum(stage), launch * count)
            for stage, count in zip(zip(*parts, strict=True), launches, strict=True)
        ]

    def _is_captured(self, tokens: float) -> bool:
        return bool(self.captured_tokens) and tokens <= self.captured_tokens[-1]

    def _padded(self, tokens: float) -> float:
        """Tokens of the graph that is replayed."""
        place = bisect_left(self.captured_tokens, tokens)
        return self.captured_tokens[place] if place < len(self.captured_tokens) else tokens

    def _device(self, batches: StepBatches) -> Floats:
        """Seconds of the device, shape (stages, n, bounds)."""
        sequences, new = batches.sequences, batches.prompt_tokens
        tokens = sequences * self.tokens_per_sequence
        writes, reads = sequences > 0, new > 0
        answering = _where(writes, self.answer_tokens.at(self._all_padded(tokens)))
        mixed = self.mixed_tokens.at(tokens + new)
        is_more = mixed.sum(axis=-1) >= answering.sum(axis=-1)
        total = np.where((reads & is_more)[..., None], mixed, answering)
        keys = np.divide(batches.prompt_pairs, new, out=np.zeros_like(new, dtype=np.float64), where=reads)
        total += _where(reads, self.prompts.at(new, keys))
        held = np.divide(batches.cached_tokens, sequences, out=np.zeros(len(tokens)), where=writes)
        total += _where(writes, self.answers.at(sequences, held))
        if self.drafts is not None:
            total += _where(writes, self.drafts.at(sequences))
        rows = tokens + batches.ended_prompts
        total += _where(rows > 0, self.rows.at(rows))
        return total

    def _all_padded(self, tokens: Floats) -> Floats:
        if not self.captured_tokens:
            return tokens
        sizes = np.array(self.captured_tokens, dtype=np.float64)
        place = np.searchsorted(sizes, tokens)
        return np.where(place < len(sizes), sizes[np.minimum(place, len(sizes) - 1)], tokens)

    def _issued(self, batches: StepBatches) -> Floats:
        """Seconds for which the host issues kernels, shape (stages, n)."""
        tokens = batches.sequences * self.tokens_per_sequence
        reads = batches.prompt_tokens > 0
        shape = (len(self.copies), 1)
        mixed, answering = (
            np.reshape(launches or (0.0,) * len(self.copies), shape)
            for launches in (self.mixed_launches, self.answer_launches)
        )
        largest = self.captured_tokens[-1] if self.captured_tokens else 0
        without = np.where(tokens > largest, answering, 0.0)
        return self.host.launch_seconds * np.where(reads, mixed, without)


def _where(flags: Flags, seconds: Floats) -> Floats:
    return np.where(flags[:, None], seconds, 0.0)
