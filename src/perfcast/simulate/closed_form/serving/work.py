"""What requests ask of an engine on average, and how many of them it has room for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.scheduling import SchedulerPolicy
from perfcast.core.serving.steady import EngineColumns

#: Of an answer, the part whose room a running request takes on average while others wait for it. Nobody is
#: ever evicted by TensorRT-LLM, which keeps the whole answer free. These and the two below were chosen on
#: requests that ``simulate.serving`` played with made-up steps (``test_steady_state``).
_KEPT_OF_ANSWER: dict[SchedulerPolicy, float] = {"vllm": 0.8, "vllm_v0": 0.8, "sglang": 0.8, "trtllm": 1.0}
#: The same where lengths differ, so that answers end at different times.
_KEPT_OF_UNEVEN: dict[SchedulerPolicy, float] = {"vllm": 0.6, "vllm_v0": 0.6, "sglang": 0.65, "trtllm": 1.0}
#: By how much less of even answers vLLM keeps where answers are the longer part.
_LESS_OF_LONG = 0.6
#: How often a request is retracted by SGLang, where all of it were answer; falls as a power of its share.
_RETRACTIONS, _RETRACTION_POWER = 0.45, 1.5
#: Of an answer's time, what vLLM's evicted requests wait on top, likewise: a power where answers are even,
#: and where they differ.
_EVICTION_POWERS = (1.3, 1.8)
#: Of the whole wait, what comes after the first token at most.
_MOST_EVICTED = 0.9


@dataclass(frozen=True, slots=True)
class RequestWork:
    """Requests of a load, on average.

    Attributes:
        prompt_tokens, answer_tokens: Of a request.
        new_tokens: Of a prompt, those that have to be read.
        pairs: Query-key pairs of them.
        steps: Of an answer's further tokens.
        held_tokens: That a writing sequence attends to, mean over time.
        prompt_variation, answer_variation: Standard deviation over the mean.
    """

    prompt_tokens: float
    answer_tokens: float
    new_tokens: float
    pairs: float
    steps: float
    held_tokens: float
    prompt_variation: float
    answer_variation: float

    @property
    def is_even(self) -> bool:
        """Whether requests that begin together end together."""
        return self.answer_variation == 0

    @property
    def answer_share(self) -> float:
        """Of a request's tokens."""
        return self.answer_tokens / (self.prompt_tokens + self.answer_tokens)

    @property
    def further_tokens(self) -> float:
        """Of an answer, after the first."""
        return self.answer_tokens - 1


def work_of(
    prompts: Lengths, answers: Lengths, *, prefix_hit_share: float, tokens_per_step: float
) -> RequestWork:
    """Means of what requests ask for.

    A time mean over answers under way is biased to long ones: E[a²] / 2 E[a] tokens are written already (the
    mean age of a renewal process).
    """
    prompt, answer = prompts.mean_tokens, answers.mean_tokens
    reading, writing = variation(prompts), variation(answers)
    cached = math.floor(prompt * prefix_hit_share) if prefix_hit_share else 0.0
    new = max(prompt - cached, 1.0)
    square = new * new * (1 + reading**2)
    return RequestWork(
        prompt_tokens=prompt,
        answer_tokens=answer,
        new_tokens=new,
        pairs=new * cached + (square + new) / 2,
        steps=(answer - 1) / tokens_per_step,
        held_tokens=prompt + answer * (1 + writing**2) / 2,
        prompt_variation=reading,
        answer_variation=writing,
    )


def variation(lengths: Lengths) -> float:
    """Standard deviation over the mean."""
    return lengths.spread / math.sqrt(3) if lengths.shape == "uniform" else lengths.spread


def places_of(work: RequestWork, engines: EngineColumns) -> tuple[Floats, Floats]:
    """Requests that an engine has room for at once, shape (n,): by all limits, and by its memory alone."""
    kept = (_KEPT_OF_ANSWER if work.is_even else _KEPT_OF_UNEVEN)[engines.policy]
    if work.is_even and engines.policy in ("vllm", "vllm_v0"):
        kept -= _LESS_OF_LONG * max(work.answer_share - 0.5, 0.0)
    block = engines.block_tokens
    tokens = work.prompt_tokens + kept * work.answer_tokens + engines.new_tokens - 1
    blocks = math.ceil(tokens / block)
    by_memory = np.maximum(engines.kv_tokens / (blocks * block), 1.0)
    if work.is_even and engines.policy == "sglang":
        reserves_all, whole = _reserves_all(work, engines)
        by_memory = np.where(reserves_all, whole, by_memory)
    if engines.policy == "trtllm" and work.is_even:
        by_memory = np.floor(by_memory)
    by_tokens = np.maximum(engines.max_step_tokens // engines.new_tokens, 1.0)
    if (
        not engines.chunks_prompts and not engines.reads_apart
    ):  # a whole prompt has to find room beside writers
        aside = np.maximum(engines.max_step_tokens - work.new_tokens, 0.0) // engines.new_tokens
        by_tokens = np.minimum(by_tokens, aside + 1)
    return np.minimum(np.minimum(engines.max_sequences, by_tokens), by_memory), by_memory


def _reserves_all(work: RequestWork, engines: EngineColumns) -> tuple[Flags, Floats]:
    """Where SGLang starts all that find room in one step: it reserves whole answers among those then."""
    whole = np.maximum(np.floor(engines.kv_tokens / (work.prompt_tokens + work.answer_tokens)), 1.0)
    return np.asarray(whole * work.new_tokens <= engines.max_step_tokens), whole


def waits_while_answered(
    work: RequestWork, engines: EngineColumns, queue_seconds: Floats, answer_seconds: Floats
) -> Floats:
    """Of what requests wait for memory, the part after their first token, shape (n,).

    vLLM starts who finds room for a prompt, and evicts who began last when answers grow: the evicted go first
    again, so that part of an answer's time is lost. SGLang's retracted go to the queue's end, and wait as
    long as those who come. TensorRT-LLM evicts nobody.
    """
    if engines.policy == "trtllm":
        return np.zeros_like(queue_seconds)
    if engines.policy == "sglang":
        retractions = np.full_like(queue_seconds, _RETRACTIONS * work.answer_share**_RETRACTION_POWER)
        if work.is_even:
            retractions[_reserves_all(work, engines)[0]] = 0.0
        return np.asarray(queue_seconds * retractions / (1 + retractions))
    power = _EVICTION_POWERS[0 if work.is_even else 1]
    return np.asarray(np.minimum(_MOST_EVICTED * queue_seconds, work.answer_share**power * answer_seconds))
