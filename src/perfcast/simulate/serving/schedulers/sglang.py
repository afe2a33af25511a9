"""SGLang's scheduler (python/sglang/srt/managers/scheduler.py, get_next_batch_to_run; schedule_policy.py,
PrefillAdder; schedule_batch.py, retract_decode).

Prompts come first, in steps of their own ('extend'), of ``chunked_prefill_size`` tokens; the last prompt of a
step is cut there and read on in the next. Only when none is to be read do all that write gain a token
('decode'). A request starts if the free blocks, less what the running ones are expected to write, exceed its
prompt and its answer, the answer counted with at most 4,096 tokens (CLIP_MAX_NEW_TOKENS). What running ones
will write is their outstanding tokens, clipped too, times ``new_token_ratio``: 0.7 at first, falling linearly
over 600 decode steps to 0.14 of that (SGLANG_INIT_NEW_TOKEN_RATIO, ..._MIN_..._FACTOR, ..._DECAY_STEPS). Once
a request found no room, none is tried until one ends (batch_is_full). When a decode step finds no room, those
that have written least, the longest prompts among them, are retracted to the end of the queue until it does,
and the ratio rises to what they have written and 20 steps more, over all answers
(SGLANG_RETRACT_DECODE_STEPS). Mixed chunks (enable_mixed_chunk) are off by default.
"""

from __future__ import annotations

from heapq import heappop, heappush

from perfcast.core.serving.scheduling import Scheduling, Speculation
from perfcast.simulate.serving.schedulers.base import Completed, Scheduler
from perfcast.simulate.serving.sequence import Sequence

_CLIP, _LEAST_FACTOR, _DECAY_STEPS, _STEPS_AFTER_RETRACTION = 4096, 0.14, 600, 20


class SglangScheduler(Scheduler):
    """Steps that read, then steps that write, with room for a share of the answers."""

    def __init__(
        self, scheduling: Scheduling, speculation: Speculation | None = None, *, hands_over: bool = False
    ) -> None:
        super().__init__(scheduling, speculation, hands_over=hands_over)
        self.ratio = scheduling.reserved_answers
        self._least_ratio = scheduling.reserved_answers * _LEAST_FACTOR
        self._decay = (self.ratio - self._least_ratio) / _DECAY_STEPS
        self._full = False
        self._near: dict[int, int] = {}  # goals of answers of which less than the clip is outstanding
        self._near_goals = 0
        self._far: list[tuple[int, int]] = []  # (goal, number) of the others

    # -- what the running ones may still write

    def _outstanding_tokens(self) -> int:
        ticks = self.writers.ticks
        while self._far and self._far[0][0] - ticks <= _CLIP:
            goal, number = heappop(self._far)
            writer = self.writers.members.get(number)
            if writer is not None and writer.goal == goal and number not in self._near:
                self._near[number] = goal
                self._near_goals += goal
        near = len(self._near)
        return self._near_goals - near * ticks + (len(self.writers) - near) * _CLIP

    def _note(self, sequence: Sequence) -> None:
        if sequence.goal - self.writers.ticks <= _CLIP:
            self._near[sequence.number] = sequence.goal
            self._near_goals += sequence.goal
        else:
            heappush(self._far, (sequence.goal, sequence.number))

    def left(self, sequence: Sequence) -> None:
        """A sequence runs no more: what is kept of it is forgotten."""
        self._near_goals -= self._near.pop(sequence.number, 0)
        self._full = False

    def release(self, sequence: Sequence) -> None:
        """Blocks that it holds are free, and what was promised to it."""
        super().release(sequence)
        self._full = False

    # -- a step

    def choose(self) -> None:
        """What the next step computes, by the rules above."""
        if self._extend():
            return
        if len(self.writers):
            self._retract()
            self.write()

    def _extend(self) -> bool:
        budget, found = self.scheduling.max_step_tokens, False
        for sequence in self.readers.values():  # the one that was cut
            chunk = min(sequence.unread, budget)
            if self.blocks_for(sequence.read + chunk) - sequence.blocks > self.free_blocks:
                return False
            self.read(sequence, chunk)
            budget -= chunk
            found = True
        if self._full or not self.waiting:
            return found
        block = self.scheduling.block_tokens
        room = self.free_blocks * block - self.ratio * self._outstanding_tokens()
        room -= sum(each.unread + self._answer(each) for each in self.readers.values())
        while self.waiting and budget > 0 and self.places > 0:
            chunk, room = self._admitted(budget, room)
            if not chunk:
                break
            budget -= chunk
            found = True
        return found

    def _answer(self, sequence: Sequence) -> int:
        """Tokens that a sequence may still write here, as far as they count; one where answers are written
        elsewhere (disaggregation/prefill.py sets max_new_tokens to 1)."""
        return 1 if self.hands_over else min(sequence.answer - sequence.written, _CLIP)

    def _admitted(self, budget: int, room: float) -> tuple[int, float]:
        """Tokens of the first of the queue that this step reads, 0 if it has no room; and the room left."""
        sequence = self.waiting[0]
        unread = sequence.to_read - sequence.cached
        answer = self._answer(sequence)
        held = self.blocks_for(sequence.cached) * self.scheduling.block_tokens
        alone = not self.running and not self.loading
        if held + unread + answer >= room and not alone:
            self._full = True
            return 0, room
        chunk = min(unread, budget)
        if chunk < unread and not self.scheduling.chunks_prompts:
            return 0, room
        if self.blocks_for(sequence.cached + chunk) > self.free_blocks:
            return 0, room
        self.read(self.start(), chunk)
        return chunk, room - held - unread - answer

    def _retract(self) -> None:
        """Who has written least gives way until the next step has room."""
        if self.writers.growth() <= self.free_blocks:
            return
        ticks = self.writers.ticks
        order = sorted(
            self.writers.members.values(),
            key=lambda each: (-(each.offset - each.prompt), each.prompt, -each.number),
        )
        while len(order) > 1 and self.writers.growth() > self.free_blocks:
            last = order.pop()
            self.preempt(last)
            self.waiting.append(last)
        written = sum(each.offset + ticks - each.prompt for each in order)
        answers = sum(each.answer for each in order)
        self.ratio = min(1.0, (written + _STEPS_AFTER_RETRACTION * len(order)) / (answers + 1))

    def complete(self, steps: int) -> Completed:
        """The planned step is done so often."""
        if self._writes:
            self.ratio = max(self._least_ratio, self.ratio - steps * self._decay)
        return super().complete(steps)

    def _end_of_prompt(self, sequence: Sequence, done: Completed) -> None:
        super()._end_of_prompt(sequence, done)
        if sequence.number in self.writers.members:
            self._note(sequence)

    def join(self, sequence: Sequence) -> None:
        """Its keys and values are here: it writes from now on."""
        super().join(sequence)
        self._note(sequence)
