"""vLLM's scheduler since V1 (vllm/v1/core/sched/scheduler.py, Scheduler.schedule; default since 0.8, 2025).

No phases: a step has ``max_num_batched_tokens`` tokens to give. Running requests are served first, in the
order in which they began: one token (and the drafted ones) for each that writes, what is left for prompts
that were begun. Then waiting requests start in the order in which they came, while tokens, places
(``max_num_seqs``) and blocks for their chunk last. Who runs out of blocks takes those of the request that
began last, which is read again (recomputed); in a step in which that happened nobody starts. Without chunked
prefill a prompt waits for a step that reads it whole.
"""

from __future__ import annotations

from collections.abc import Callable

from perfcast.simulate.serving.schedulers.base import Scheduler
from perfcast.simulate.serving.sequence import Sequence


class VllmScheduler(Scheduler):
    """Tokens of a step are dealt out, to running requests first."""

    def choose(self) -> None:
        """What the next step computes, by the rules above."""
        before = len(self.preempted)
        budget = self.scheduling.max_step_tokens
        if len(self.writers):
            self._make_room(self.writers.growth)
            if len(self.writers):
                self.write()
                budget -= len(self.writers) * (1 + self.drafted)
        for sequence in tuple(self.readers.values()):
            budget -= self._go_on(sequence, min(sequence.unread, budget))
        if len(self.preempted) == before:
            self._start_waiting(budget)

    def _make_room(self, needed: Callable[[], int]) -> None:
        """Who began last gives way until there are enough blocks, or nobody is left."""
        while self.running and needed() > self.free_blocks:
            last = self.running[next(reversed(self.running))]
            self.preempt(last)
            self.waiting.appendleft(last)

    def _go_on(self, sequence: Sequence, chunk: int) -> int:
        """Read on in a prompt that was begun; the tokens that it takes of the step."""

        def needed() -> int:
            if sequence.number not in self.readers:
                return 0  # it was itself the last
            return self.blocks_for(sequence.read + chunk) - sequence.blocks

        if chunk <= 0 or sequence.number not in self.readers:
            return 0
        self._make_room(needed)
        if sequence.number not in self.readers:
            return 0
        self.read(sequence, chunk)
        return chunk

    def _start_waiting(self, budget: int) -> None:
        while self.waiting and budget > 0 and self.places > 0:
            sequence = self.waiting[0]
            unread = sequence.to_read - sequence.cached
            chunk = min(unread, budget)
            if chunk < unread and not self.scheduling.chunks_prompts:
                return
            if self.blocks_for(sequence.cached + chunk) > self.free_blocks:
                return
            self.read(self.start(), chunk)
            budget -= chunk
