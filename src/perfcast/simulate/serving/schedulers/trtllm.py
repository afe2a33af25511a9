"""TensorRT-LLM's scheduler: in-flight batching (tensorrt_llm/_torch/pyexecutor/scheduler.py, and the C++
capacityScheduler.cpp and microBatchScheduler.cpp that it follows).

Two questions in a row. Capacity, with the default policy GUARANTEED_NO_EVICT: in the order in which they
came, a request starts only if the blocks that all running ones will ever need leave enough for its whole
prompt and answer, so that nobody ever loses its place. Then the batch: all requests that write, and prompts
behind them in order while ``max_batch_size`` and ``max_num_tokens`` last, in one step. Chunked context is off
by default: a prompt that does not fit into what is left of the tokens waits for another step.

Attention data-parallel ranks may be balanced (py_executor.py, _balance_adp_requests; attention_dp_config, off
by default): prompts are held back until every rank has one and a place for it, or has nothing to write, or so
many steps have passed.
"""

from __future__ import annotations

from perfcast.simulate.serving.schedulers.base import Scheduler
from perfcast.simulate.serving.sequence import Sequence


class TrtllmScheduler(Scheduler):
    """Nobody starts whose whole answer has no room."""

    _promised = 0  # blocks, of all that have begun

    @property
    def _unpromised(self) -> int:
        return self.capacity - self._promised

    def _whole(self, sequence: Sequence) -> int:
        """Blocks that a sequence will need at its end."""
        return self.blocks_for(sequence.prompt + (1 if self.hands_over else sequence.answer))

    def choose(self) -> None:
        """What the next step computes, by the rules above."""
        budget = self.scheduling.max_step_tokens
        if len(self.writers):
            self.write()
            budget -= len(self.writers) * (1 + self.drafted)
        if self.holds_prompts:
            return
        for sequence in self.readers.values():
            chunk = self._chunk(sequence.unread, budget)
            if not chunk:
                return
            self.read(sequence, chunk)
            budget -= chunk
        while self.waiting and self.places > 0:
            sequence = self.waiting[0]
            chunk = self._chunk(sequence.to_read - sequence.cached, budget)
            if not chunk or self._whole(sequence) > self._unpromised:
                return
            self._promised += self._whole(sequence)
            self.read(self.start(), chunk)
            budget -= chunk

    def has_prompt(self) -> bool:
        """Whether it would read one in the next step, were there tokens enough."""
        if self.readers or not super().has_prompt():
            return bool(self.readers)
        return self._whole(self.waiting[0]) <= self._unpromised

    def _chunk(self, unread: int, budget: int) -> int:
        """Tokens of a prompt that this step reads."""
        if self.scheduling.chunks_prompts:
            return max(0, min(unread, budget))
        return unread if unread <= budget else 0

    def left(self, sequence: Sequence) -> None:
        """A sequence runs no more: what is kept of it is forgotten."""
        if not self.hands_over:
            self._promised -= self._whole(sequence)

    def release(self, sequence: Sequence) -> None:
        """Blocks that it holds are free, and what was promised to it."""
        if self.hands_over:
            self._promised -= self._whole(sequence)
        super().release(sequence)

    def room_for_loading(self, sequence: Sequence) -> int:
        """Blocks that a sequence from elsewhere may take."""
        return self._unpromised - self._whole(sequence) + self.blocks_for(sequence.prompt)

    def reserve(self, sequence: Sequence) -> bool:
        """Take place and blocks for a sequence that was read elsewhere; False: there is no room."""
        found = super().reserve(sequence)
        if found:
            self._promised += self._whole(sequence)
        return found
