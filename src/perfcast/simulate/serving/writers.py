"""The sequences of an engine that write: all gain equally many tokens in a step, so sums do for all of them.

``ticks`` counts the tokens that a sequence would have gained since the beginning, had it been there: G steps
give G ticks, and with speculation floor(e · G) where e is the expected gain of a step (Leviathan et al., ICML
2023, equation 1): expected tokens accumulate and whole ones count, so that the same requests always give the
same answer, and means are those of drawn acceptance. A sequence that had T tokens at tick t has T - t + ticks
of them: its offset T - t never changes. Of n sequences the tokens are then the sum of offsets + n · ticks,
the next answer is complete at the smallest goal, and blocks follow from how many offsets have which
remainder.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from perfcast.simulate.serving.sequence import Sequence

_WHOLE = 1e-9


class Writers:
    """Sequences that write, in the order in which they began to.

    Args:
        block_tokens: Of one block of the cache.
        tokens_per_step: Gained by each in a step, expected.
        drafted_tokens: For which a step needs room beside the next token.
    """

    def __init__(self, block_tokens: int, tokens_per_step: float = 1.0, drafted_tokens: int = 0) -> None:
        self.steps = 0
        self.ticks = 0
        self.blocks = 0
        self.freed = 0
        self.members: dict[int, Sequence] = {}
        self._block, self._rate, self._drafted = block_tokens, tokens_per_step, drafted_tokens
        self._offsets = 0
        self._held_tick = -1
        self._remainders = [0] * block_tokens
        self._ends: list[tuple[int, int, Sequence]] = []

    def __len__(self) -> int:
        return len(self.members)

    @property
    def attended_tokens(self) -> int:
        """Tokens that they attend to in the next step, summed."""
        return self._offsets + len(self.members) * self.ticks

    @property
    def kept_tokens(self) -> int:
        """Tokens whose keys and values are held: all but the newest of each."""
        return self._offsets + len(self.members) * (self.ticks - 1)

    def ticks_after(self, steps: int) -> int:
        """Ticks when so many more steps are done."""
        return math.floor(self._rate * (self.steps + steps) + _WHOLE)

    def add(self, sequence: Sequence) -> None:
        """One more, whose newest token is not in the cache yet."""
        sequence.offset = sequence.prompt + sequence.written - self.ticks
        sequence.goal = self.ticks + sequence.answer - sequence.written
        heappush(self._ends, (sequence.goal, sequence.number, sequence))
        self._count(sequence, 1)
        self.members[sequence.number] = sequence

    def remove(self, sequence: Sequence) -> None:
        """One fewer; how much it has written is noted."""
        del self.members[sequence.number]
        sequence.written = min(sequence.answer, sequence.offset + self.ticks - sequence.prompt)
        self.freed += self.blocks_of(sequence)
        self._count(sequence, -1)

    def _count(self, sequence: Sequence, sign: int) -> None:
        self._offsets += sign * sequence.offset
        self._remainders[sequence.offset % self._block] += sign
        self.blocks += sign * self.blocks_of(sequence)

    def blocks_of(self, sequence: Sequence) -> int:
        """What one of them holds."""
        return -(-(sequence.offset + self._held_tick + self._drafted) // self._block)

    def growth(self, steps: int = 1) -> int:
        """Blocks that they need beyond what they hold for so many more steps."""
        return self._growth_to(self.ticks_after(steps - 1))

    def grow(self, steps: int = 1) -> None:
        """Take them."""
        tick = self.ticks_after(steps - 1)
        if tick > self._held_tick:
            self.blocks += self._growth_to(tick)
            self._held_tick = tick

    def _growth_to(self, tick: int) -> int:
        if not self.members or tick <= self._held_tick:
            return 0
        block = self._block
        first = (-self._held_tick - self._drafted) % block  # offsets of this remainder end a block now
        if tick == self._held_tick + 1:
            return self._remainders[first]
        whole, rest = divmod(tick - self._held_tick, block)
        return whole * len(self.members) + sum(
            self._remainders[(first - place) % block] for place in range(rest)
        )

    def steps_that_fit(self, free_blocks: int, most: int) -> int:
        """The largest number of steps, at most ``most``, for which so many more blocks suffice."""
        if self.growth(most) <= free_blocks:
            return most
        low, high = 0, most  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.growth(middle) <= free_blocks else (low, middle)
        return low

    def steps_to_first_end(self) -> int:
        """After how many more steps the first of their answers is complete."""
        ends, members = self._ends, self.members
        while members.get(ends[0][1]) is not ends[0][2] or ends[0][2].goal != ends[0][0]:
            heappop(ends)
        goal = ends[0][0]
        steps = max(1, math.ceil((goal - _WHOLE) / self._rate) - self.steps)
        while self.ticks_after(steps) < goal:  # floating point at a whole number
            steps += 1
        return steps

    def advance(self, steps: int) -> list[Sequence]:
        """So many steps are done: those whose answers are complete leave, in the order of their goals."""
        self.grow(steps)
        self.ticks = self.ticks_after(steps)
        self.steps += steps
        done, ends, members = [], self._ends, self.members
        while ends and ends[0][0] <= self.ticks:
            goal, number, sequence = heappop(ends)
            if members.get(number) is sequence and sequence.goal == goal:
                self.remove(sequence)
                done.append(sequence)
        return done
