"""What became of requests: when each was answered, and what the replicas held meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class Occupancy:
    """What all replicas hold over time, in columns: each row is true from its time to the next row's.

    Attributes:
        seconds: Never falling.
        running: Requests that are being read or answered.
        waiting: That have no place yet.
        kv_tokens: Tokens whose keys and values are held.
    """

    seconds: Floats
    running: Integers
    waiting: Integers
    kv_tokens: Integers


@dataclass(frozen=True, eq=False)
class StepLog:
    """Steps of a window, in columns; rows in order of their beginning.

    Attributes:
        start_seconds, end_seconds: Of a step, or of a row of steps of one batch that follow each other.
        steps: How many these are; 1 of a step in which a prompt is read.
        engine: That ran it, counted over all replicas and pools.
        pool: 0 the first (or only) one, 1 the one that writes where pools differ.
        sequences: That wrote.
        prompts, prompt_tokens: Read, and how many tokens of them.
        cached_tokens: That the sequences which wrote attended to, at the beginning.
        running, waiting: Requests of that engine.
        kv_tokens: That the engine holds.
    """

    start_seconds: Floats
    end_seconds: Floats
    steps: Integers
    engine: Integers
    pool: Integers
    sequences: Integers
    prompts: Integers
    prompt_tokens: Integers
    cached_tokens: Floats
    running: Integers
    waiting: Integers
    kv_tokens: Integers

    def __len__(self) -> int:
        return len(self.start_seconds)


@dataclass(frozen=True, eq=False)
class Played:
    """Requests as answered, in the order in which they came, each column of shape (number of requests,).

    Attributes:
        sent_seconds: When a client sent each.
        started_seconds: When the first of its tokens was computed.
        first_token_seconds: When its first token was there.
        finished_seconds: When its last was.
        answer_tokens: Written.
        prompt_tokens: Read, of the whole prompt.
        preemptions: How often it lost its place and was read again.
        replica: That answered it (wrote the answer, where pools differ).
        num_steps: Of all engines.
        busy_seconds: Of all engines, in steps.
        seconds_by_bound: Of all steps, by what bounds them: those of ``StepTimes``' own words
            ('compute', 'memory', 'communication', 'host'), summed over engines.
        occupancy: Over time.
        measured_from_seconds, measured_to_seconds: The window in which figures are taken: without the
            beginning and the end of a closed loop or a stream.
        steps: Of a window, where one was asked for.
    """

    sent_seconds: Floats
    started_seconds: Floats
    first_token_seconds: Floats
    finished_seconds: Floats
    answer_tokens: Integers
    prompt_tokens: Integers
    preemptions: Integers
    replica: Integers
    num_steps: int
    busy_seconds: float
    seconds_by_bound: dict[str, float]
    occupancy: Occupancy
    measured_from_seconds: float
    measured_to_seconds: float
    steps: StepLog | None = None

    @property
    def time_to_first_token_seconds(self) -> Floats:
        """From sending to the first token: what a client waits."""
        return self.first_token_seconds - self.sent_seconds

    @property
    def time_per_output_token_seconds(self) -> Floats:
        """Of each further token of a request, on average; NaN of answers of one token."""
        further = np.where(self.answer_tokens > 1, self.answer_tokens - 1, np.nan)
        return (self.finished_seconds - self.first_token_seconds) / further

    @property
    def end_to_end_seconds(self) -> Floats:
        """From sending to the last token."""
        return self.finished_seconds - self.sent_seconds
