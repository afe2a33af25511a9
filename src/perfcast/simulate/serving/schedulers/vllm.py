"""vLLM's scheduler since V1 (vllm/v1/core/sched/scheduler.py, Scheduler.schedule; default since 0.8, 2025).

No phases: a step has ``max_num_batched_tokens`` tokens to give. Running requests are served first, in the
order in which they began: one token (and the drafted ones) for each that writes, what is left for prompts
that were begun. Then waiting requests start in the order in which they came, while tokens, places
(``max_num_seqs``) and blocks for their chunk last; since 0.19 blocks for their whole prompt
(scheduler_reserve_full_isl, pull request 37307 of March 2026). Who runs out of blocks takes those of the
request that began last, which is read again (recomputed); in a step in which that happened nobody starts.
Without chunked prefill a prompt waits for a step that reads it whole.

Free blocks stand in a queue: they are taken from its head and given back at its end, a request's last block
first (v1/core/kv_cache_manager.py, free; block_pool.py). With the prefix cache, on by default, a request that
lost its place finds those of its first blocks again which nobody has taken meanwhile. Who lost its place last
starts first, so places in the queue behind it are never counted: a block's place is how many were given back
before it, less those found again.
"""

from __future__ import annotations

from collections.abc import Callable

from perfcast.simulate.serving.schedulers.base import Scheduler
from perfcast.simulate.serving.sequence import Sequence


class VllmScheduler(Scheduler):
    """Tokens of a step are dealt out, to running requests first."""

    _found_blocks = 0  # that requests found again, which had lost their place

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
            found = self._found(sequence)
            unread = sequence.to_read - found
            chunk = min(unread, budget)
            if chunk < unread and not self.scheduling.chunks_prompts:
                return
            tokens = sequence.to_read if self.scheduling.reserves_prompts else found + chunk
            if self.blocks_for(tokens) > self.free_blocks:
                return
            if found > sequence.cached:
                self._found_blocks += found // self.scheduling.block_tokens
            self.read(self.start(found), chunk)
            budget -= chunk

    # -- what a request that lost its place finds again

    @property
    def _end_of_free(self) -> int:
        """Where in the order of free blocks the next one that is given back will stand."""
        return self.capacity + self.freed_blocks - self._found_blocks

    def preempt(self, sequence: Sequence) -> None:
        """It loses its place; its blocks go to the end of the free ones, its last block first."""
        writes = sequence.number in self.writers.members
        total = sequence.offset + self.writers.ticks - 1 if writes else sequence.read
        sequence.left_at, sequence.left_tokens = self._end_of_free, total
        sequence.left_blocks = self.writers.blocks_of(sequence) if writes else sequence.blocks
        super().preempt(sequence)

    def _found(self, sequence: Sequence) -> int:
        """Tokens whose keys and values need not be computed: cached, or still where they were."""
        if not self.scheduling.reuses_blocks or not sequence.left_blocks:
            return sequence.cached
        first_free = self._end_of_free - self.free_blocks
        lost = min(sequence.left_blocks, max(0, first_free - sequence.left_at))
        block = self.scheduling.block_tokens
        return max(sequence.cached, min(sequence.left_blocks - lost, sequence.left_tokens // block) * block)
