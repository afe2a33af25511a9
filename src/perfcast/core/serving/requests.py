"""Requests in columns: when each comes, how long its prompt is, and how long its answer will be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import InputError


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order in which they come.

    Attributes:
        arrival_seconds: From the beginning, never falling; in a closed loop all zero: the loop says when each
            is sent.
        prompt_tokens: Of each, at least 1.
        answer_tokens: Of each, at least 1; the first of them is the end of the prompt's reading.
        cached_tokens: Of each prompt, those at its beginning whose keys and values are there already; fewer
            than it has.
    """

    arrival_seconds: Floats
    prompt_tokens: Integers
    answer_tokens: Integers
    cached_tokens: Integers

    def __post_init__(self) -> None:
        lengths = {
            len(column)
            for column in (self.arrival_seconds, self.prompt_tokens, self.answer_tokens, self.cached_tokens)
        }
        if lengths == {0} or len(lengths) != 1:
            raise InputError(
                f"requests in columns of {sorted(lengths)} rows: give at least one, all equally long"
            )
        if self.prompt_tokens.min() < 1 or self.answer_tokens.min() < 1:
            raise InputError("a request has at least one token of prompt and one of answer")
        if (self.cached_tokens < 0).any() or (self.cached_tokens >= self.prompt_tokens).any():
            raise InputError("of a prompt, none to all but one of the tokens can be cached")
        if (np.diff(self.arrival_seconds) < 0).any() or not np.isfinite(self.arrival_seconds).all():
            raise InputError("requests come one after the other: arrival times never fall")

    def __len__(self) -> int:
        return len(self.prompt_tokens)
