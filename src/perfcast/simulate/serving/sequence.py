"""A request on its way through an engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Sequence:
    """What an engine knows of a request.

    Attributes:
        number: Of the request.
        prompt, answer: Tokens.
        cached: Tokens of the prompt whose keys and values are there before it is read.
        written: Tokens of the answer that are there; of a sequence that writes, as of when it began to.
        read: Tokens whose keys and values were computed, cached ones too, while it is read.
        blocks: Held while it is read, loaded or handed over.
        left_at, left_blocks, left_tokens: Where in the order of free blocks those begin that it held when it
            lost its place, how many they were, and the tokens in them.
        offset: Of a sequence that writes: its tokens less the ticks of the engine's writers.
        goal: Ticks at which its answer is complete.
    """

    number: int
    prompt: int
    answer: int
    cached: int
    written: int = 0
    read: int = 0
    blocks: int = 0
    left_at: int = 0
    left_blocks: int = 0
    left_tokens: int = 0
    offset: int = 0
    goal: int = 0

    @property
    def to_read(self) -> int:
        """Tokens to be read before it writes: the prompt, and what it had written where it lost its place."""
        return self.prompt + self.written

    @property
    def unread(self) -> int:
        """Tokens of those that are not read yet."""
        return self.prompt + self.written - self.read
