"""vLLM's scheduler of 2023 to 2024 (V0: vllm/core/scheduler.py, Scheduler._schedule, without chunked
prefill).

Prompts come first, in steps of their own: as long as waiting requests find places, tokens of a step
(``max_num_batched_tokens``, every prompt whole) and blocks, with 1 % of all blocks kept free (the watermark),
a step reads them and no answer goes on. Otherwise all that run write a token each; who finds no block takes
those of the request that began last, which is read again. (Chunked prefill, an option since 0.4 and the usual
way for long contexts since 0.5, deals tokens out as V1 does: use 'vllm' for it.)
"""

from __future__ import annotations

from perfcast.simulate.serving.schedulers.vllm import VllmScheduler

#: vllm/core/block_manager.py, BlockSpaceManager(watermark=0.01).
_WATERMARK = 0.01


class VllmV0Scheduler(VllmScheduler):
    """Steps that read, then steps that write."""

    def choose(self) -> None:
        """What the next step computes, by the rules above."""
        if self._read_prompts():
            return
        if len(self.writers):
            self._make_room(self.writers.growth)
            if len(self.writers):
                self.write()

    def _read_prompts(self) -> bool:
        budget, spare = self.scheduling.max_step_tokens, int(_WATERMARK * self.capacity)
        found = False
        while self.waiting and self.places > 0:
            sequence = self.waiting[0]
            unread = sequence.to_read - sequence.cached
            alone = not self.running
            if unread > budget and not (alone and not found):
                break
            if self.blocks_for(sequence.to_read) > self.free_blocks - (0 if alone else spare):
                break
            self.read(self.start(), unread)
            budget -= unread
            found = True
        return found
